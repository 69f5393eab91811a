#include "egress/proxy/upstreams.h"

#include <algorithm>

#include "async/timer.h"
#include "base/log.h"
#include "egress/proxy/upstream_tcp.h"

namespace osb::egress {
namespace {

// Delays between the attempts of a question, and from the last one to its end.
constexpr std::chrono::milliseconds kDelays[] = {std::chrono::milliseconds(400), std::chrono::milliseconds(800),
                                                 std::chrono::milliseconds(1600)};
constexpr std::size_t kEnd = std::size(kDelays);  // the queue of ends
constexpr std::size_t kProbeEnd = kEnd + 1;       // probes end earlier: a queue of their own keeps both in order
constexpr std::size_t kSocketsPerServer = 16;
constexpr unsigned kSilentAfter = 3;
constexpr std::chrono::seconds kQuickProbe{1};
constexpr std::chrono::seconds kProbeTimeout{2};
constexpr std::size_t kMostLookups = 16'384;

bool is_final(const Response& response) {
  return response.rcode == static_cast<std::uint16_t>(Rcode::NoError) ||
         response.rcode == static_cast<std::uint16_t>(Rcode::NxDomain);
}

}  // namespace

Upstreams::Upstreams(net::any_io_executor executor, UpstreamOptions options)
    : executor_(executor), options_(std::move(options)), timer_(executor), tasks_(executor) {
  tasks_.spawn("probe name servers", probe_forever());
}

Upstreams::~Upstreams() = default;

net::awaitable<void> Upstreams::close() {
  timer_.cancel();
  lookups_.clear();
  servers_.clear();
  co_await tasks_.close();
}

void Upstreams::set_servers(const std::vector<Endpoint>& servers) {
  std::vector<std::shared_ptr<Server>> next;
  for (const Endpoint& endpoint : servers) {
    const auto same = [&](const auto& each) { return each->endpoint == endpoint; };
    if (std::ranges::find_if(next, same) != next.end()) continue;
    if (const auto old = std::ranges::find_if(servers_, same); old != servers_.end()) {
      next.push_back(*old);
      continue;
    }
    next.push_back(std::make_shared<Server>());
    next.back()->endpoint = endpoint;
  }
  servers_ = std::move(next);
  for (const auto& server : servers_) probe(server);
}

std::vector<std::shared_ptr<Upstreams::Server>> Upstreams::order() const {
  std::vector<std::shared_ptr<Server>> out;
  for (const bool healthy : {true, false}) {
    std::ranges::copy_if(servers_, std::back_inserter(out), [&](const auto& each) { return each->healthy == healthy; });
  }
  return out;
}

void Upstreams::ask(const Question& question, Done done) {
  if (servers_.empty()) return done(fail(Code::Unavailable, "no name server is configured"));
  if (lookups_.size() >= kMostLookups) return done(fail(Code::Exhausted, "too many questions wait for name servers"));
  begin(question, std::move(done), nullptr);
}

std::uint64_t Upstreams::begin(const Question& question, Done done, std::shared_ptr<Server> only) {
  const std::uint64_t number = ++last_number_;
  Lookup& lookup = lookups_[number];
  lookup.question = question;
  lookup.done = std::move(done);
  lookup.probe = only != nullptr;
  const Time now = options_.clock->steady_now();
  const std::chrono::milliseconds limit =
      lookup.probe ? std::min<std::chrono::milliseconds>(kProbeTimeout, options_.timeout) : options_.timeout;
  lookup.deadline = now + limit;
  const bool sent = lookup.probe ? send(number, lookup, only) : send_to_next(number, lookup);
  if (!sent) {
    finish(number, fail(Code::Unavailable, "no name server can be reached"));
    return number;
  }
  if (!lookup.probe) alarms_[0].push_back({now + kDelays[0], number});
  alarms_[lookup.probe ? kProbeEnd : kEnd].push_back({lookup.deadline, number});
  set_alarm();
  return number;
}

bool Upstreams::send_to_next(std::uint64_t number, Lookup& lookup) {
  const auto servers = order();
  for (std::size_t tries = 0; tries < servers.size(); ++tries) {
    if (send(number, lookup, servers[lookup.next_server++ % servers.size()])) return true;
  }
  return false;
}

std::shared_ptr<UpstreamSocket> Upstreams::pick_socket(Server& server) {
  const std::size_t place = random_.u16() % kSocketsPerServer;
  if (server.sockets.size() < kSocketsPerServer) server.sockets.resize(kSocketsPerServer);
  auto& socket = server.sockets[place];
  if (socket && !socket->used_up()) return socket;
  auto opened = UpstreamSocket::open(
      executor_, server.endpoint, options_.identity,
      [this, &server](std::uint64_t number, std::string_view message) { received(server, number, message); },
      [this] { drained_(); });
  if (!opened) {
    log_warn("name server cannot be asked", {{"error", opened.error().message}});
    return nullptr;
  }
  return socket = std::move(*opened);  // the old one lives as long as attempts wait on it
}

bool Upstreams::send(std::uint64_t number, Lookup& lookup, const std::shared_ptr<Server>& server) {
  const auto socket = pick_socket(*server);
  const auto id = socket ? socket->reserve(number, random_) : std::nullopt;
  if (!id) return false;
  encode_question(buffer_, lookup.question, *id);
  lookup.attempts.push_back({server, socket, *id, false});
  if (socket->send(*id, buffer_)) return true;
  lookup.attempts.pop_back();
  silent(*server);
  return false;
}

void Upstreams::received(Server& server, std::uint64_t number, std::string_view message) {
  const auto found = lookups_.find(number);
  if (found == lookups_.end()) return;
  if (message.empty()) return attempt_failed(number, server);  // nothing listens there
  auto response = parse_response(message);
  // Without the question that we asked it is no answer of ours, whatever its id is.
  const Lookup& lookup = found->second;
  if (!response || response->name != lookup.question.name() || response->type != lookup.question.type()) return;
  answered(server);
  if (lookup.probe) return finish(number, std::move(*response));
  if (response->truncated) {
    const auto holder = std::ranges::find_if(servers_, [&](const auto& each) { return each.get() == &server; });
    if (holder != servers_.end()) return ask_by_tcp(number, *holder);
    return;
  }
  if (!is_final(*response)) return attempt_failed(number, server);
  finish(number, std::move(*response));
}

void Upstreams::attempt_failed(std::uint64_t number, Server& server) {
  const auto found = lookups_.find(number);
  if (found == lookups_.end()) return;
  Lookup& lookup = found->second;
  for (Attempt& each : lookup.attempts) {
    if (each.server.get() != &server) continue;
    each.failed = true;
    if (each.socket) each.socket->forget(each.id);
  }
  if (!lookup.probe) {
    for (const auto& next : order()) {
      const auto asked = [&](const Attempt& each) { return each.server == next; };
      if (std::ranges::any_of(lookup.attempts, asked)) continue;
      if (send(number, lookup, next)) return;
    }
  }
  const bool all = std::ranges::all_of(lookup.attempts, [](const Attempt& each) { return each.failed; });
  if (all) finish(number, fail(Code::Unavailable, "no name server answered"));
}

void Upstreams::ask_by_tcp(std::uint64_t number, std::shared_ptr<Server> server) {
  Lookup& lookup = lookups_.at(number);
  const auto by_tcp = [&](const Attempt& each) { return each.server == server && !each.socket; };
  if (std::ranges::any_of(lookup.attempts, by_tcp)) return;
  for (Attempt& each : lookup.attempts) {
    if (each.server != server || !each.socket) continue;
    each.failed = true;
    each.socket->forget(each.id);
  }
  lookup.attempts.push_back({server, nullptr, 0, false});
  tasks_.spawn("ask by TCP", tcp_lookup(number, std::move(server)));
}

net::awaitable<void> Upstreams::tcp_lookup(std::uint64_t number, std::shared_ptr<Server> server) {
  const auto found = lookups_.find(number);
  if (found == lookups_.end()) co_return;
  const Question question = found->second.question;
  const auto left = found->second.deadline - options_.clock->steady_now();
  std::string message;
  encode_question(message, question, random_.u16());
  const std::string id = message.substr(0, 2);
  const auto reply =
      co_await with_timeout(exchange_by_tcp(executor_, server->endpoint, options_.identity, std::move(message)), left);
  if (!lookups_.contains(number)) co_return;
  auto response = reply && reply->starts_with(id) ? parse_response(*reply) : std::nullopt;
  const bool good = response && !response->truncated && response->name == question.name() &&
                    response->type == question.type() && is_final(*response);
  if (good) {
    answered(*server);
    finish(number, std::move(*response));
  } else {
    attempt_failed(number, *server);
  }
  drained_();
}

void Upstreams::answered(Server& server) {
  if (!server.healthy) log_info("name server answers again", {{"server", format_endpoint(server.endpoint)}});
  server.healthy = true;
  server.silent = 0;
  server.last_answer = options_.clock->steady_now();
}

// A single slow name must not make a server look dead: only silence on everything does.
void Upstreams::silent(Server& server) {
  ++server.silent;
  const bool quiet = options_.clock->steady_now() - server.last_answer > kQuickProbe;
  if (!server.healthy || server.silent < kSilentAfter || !quiet) return;
  server.healthy = false;
  log_warn("name server does not answer", {{"server", format_endpoint(server.endpoint)}});
}

void Upstreams::finish(std::uint64_t number, Result<Response> result) {
  const auto found = lookups_.find(number);
  Lookup lookup = std::move(found->second);
  lookups_.erase(found);
  for (const Attempt& each : lookup.attempts) {
    if (each.socket) each.socket->forget(each.id);
  }
  lookup.done(std::move(result));
}

void Upstreams::set_alarm() {
  Time first = Time::max();
  for (const auto& queue : alarms_) {
    if (!queue.empty()) first = std::min(first, queue.front().when);
  }
  if (first >= timer_due_) return;
  timer_due_ = first;
  timer_.expires_after(first - options_.clock->steady_now());
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    timer_due_ = Time::max();
    ring();
    drained_();
    set_alarm();
  });
}

void Upstreams::ring() {
  const Time now = options_.clock->steady_now();
  for (std::size_t i = 0; i <= kProbeEnd; ++i) {
    while (!alarms_[i].empty() && alarms_[i].front().when <= now) {
      const std::uint64_t number = alarms_[i].front().lookup;
      alarms_[i].pop_front();
      const auto found = lookups_.find(number);
      if (found == lookups_.end()) continue;
      Lookup& lookup = found->second;
      for (const Attempt& each : lookup.attempts) {
        if (!each.failed) silent(*each.server);
      }
      if (i >= kEnd) {
        finish(number, fail(Code::Timeout, "no name server answered in time"));
        continue;
      }
      (void)send_to_next(number, lookup);
      if (i + 1 < kEnd) alarms_[i + 1].push_back({now + kDelays[i + 1], number});
    }
  }
}

void Upstreams::probe(std::shared_ptr<Server> server) {
  const std::string name = name_from_text(options_.probe_name).value_or(std::string(1, '\0'));
  const RecordType type = options_.probe_name.empty() ? RecordType::NS : RecordType::A;
  begin(Question(name, type, false, false), [](Result<Response>) {}, std::move(server));
}

net::awaitable<void> Upstreams::probe_forever() {
  auto last = options_.clock->steady_now();
  for (;;) {
    // A loop that only ever waits: a probe's own end is seen in the next round.
    const bool all = std::ranges::all_of(servers_, [](const auto& each) { return each->healthy; });
    const auto wait = all ? std::chrono::seconds(options_.probe_interval) : kQuickProbe;
    if (!co_await sleep_for(wait)) co_return;
    const auto now = options_.clock->steady_now();
    const bool due = now - last >= options_.probe_interval;
    if (due) last = now;
    const auto servers = servers_;
    for (const auto& server : servers) {
      if (due || !server->healthy) probe(server);
    }
  }
}

}  // namespace osb::egress
