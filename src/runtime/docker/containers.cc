#include "runtime/docker/containers.h"

#include <algorithm>

#include "async/race.h"
#include "base/backoff.h"
#include "base/log.h"
#include "base/ports.h"
#include "runtime/docker/docker_logs.h"
#include "tls/connector.h"

namespace osb::runtime {

using namespace race;

namespace {

constexpr std::chrono::milliseconds kFirstRetry(50), kLastRetry(2000);
// For execd of a container that was found: how long and how often it is asked.
constexpr std::chrono::seconds kConfirmLimit(60);
constexpr std::chrono::milliseconds kFirstAsk(1), kLastAsk(250);
// Execd logs a few lines more between a failed hook and its end.
constexpr std::size_t kEndOfLog = 32 << 10;

}  // namespace

Containers::Containers(DockerContext& context, PortPool& ports)
    : context_(context),
      ports_(ports),
      reach_(std::make_shared<const DockerReach>(make_reach(context))),
      execd_(tls::make_connector(context.executor)),
      answered_(context.executor),
      noted_(context.executor) {}

net::awaitable<Result<Container>> Containers::look_up(std::string id) {
  const auto answer = co_await context_.engine.call({.target = container_path(id, "/json")});
  if (!answer) co_return Failure(answer.error());
  Container container = read_container(*answer, context_.options.docker.network_mode);
  if (container.sandbox != id) co_return fail(Code::NotFound, container_name(id) + " is not a sandbox");
  if (container.may_be_hook_failure()) {
    const auto log = co_await read_log_tail(context_.engine, id, kEndOfLog);
    if (!log) co_return Failure(log.error());
    container.hook_failure = find_hook_failure(*log);
  }
  co_return container;
}

void Containers::note(Container container) {
  ports_.note(container.execd_host_port);
  ports_.note(container.http_host_port);
  ports_.note(container.egress_host_port);
  Known& known = known_[container.sandbox];
  if (known.container.id != container.id) known.answered = false;
  if (container.status == "paused") known.answered = true;
  known.container = std::move(container);
  noted_.notify_all();
}

void Containers::forget(const std::string& id) {
  const auto found = known_.find(id);
  if (found == known_.end()) return;
  ports_.give_back(found->second.container.execd_host_port);
  ports_.give_back(found->second.container.http_host_port);
  ports_.give_back(found->second.container.egress_host_port);
  known_.erase(found);
  noted_.notify_all();
}

void Containers::keep_only(const std::vector<std::string>& ids) {
  std::vector<std::string> gone;
  for (const auto& [id, known] : known_) {
    if (!hidden_.contains(id) && std::ranges::find(ids, id) == ids.end()) gone.push_back(id);
  }
  for (const std::string& id : gone) forget(id);
}

const Container* Containers::find(const std::string& id) const {
  const auto found = known_.find(id);
  return found == known_.end() || !found->second.seen() ? nullptr : &found->second.container;
}

net::awaitable<void> Containers::wait_ended(std::string id) {
  co_await noted_.wait_until([this, id = std::move(id)] {
    const Container* container = find(id);
    return container == nullptr || container->status == "exited" || container->status == "dead";
  });
}

// ---- for the observer

Instance Containers::located(const Container& container) const {
  Instance out = to_instance(container);
  if (reach_->host_network) out.address = reach_->host_address;
  if (!out.address.empty() || container.execd_host_port != 0) {
    const HostPorts published{.execd = container.execd_host_port,
                              .http = container.http_host_port,
                              .egress = container.egress_host_port,
                              .has_policy = !container.egress_token.empty()};
    out.ports = std::make_shared<DockerPorts>(reach_, out.address, published);
  }
  return out;
}

Instance Containers::instance_of(const Known& known) const {
  Instance out = located(known.container);
  if (out.state == InstanceState::Running && !known.answered) {
    out.state = InstanceState::Creating;
    out.message = "waiting for execd";
  }
  return out;
}

Instance Containers::describe(const Container& container) const {
  const auto known = known_.find(container.sandbox);
  if (known != known_.end() && known->second.container.id == container.id) return instance_of(known->second);
  return located(container);
}

std::vector<Instance> Containers::all() const {
  std::vector<Instance> out;
  for (const auto& [id, known] : known_) {
    if (!hidden_.contains(id) && known.seen()) out.push_back(instance_of(known));
  }
  return out;
}

void Containers::announce(const std::string& id) {
  const auto known = known_.find(id);
  if (known == known_.end() || observer_ == nullptr || hidden_.contains(id)) return;
  observer_->on_change(instance_of(known->second));
}

void Containers::announce_progress(const std::string& id, const std::string& message) {
  if (observer_ == nullptr) return;
  Instance instance;
  instance.id = id;
  instance.message = message;
  observer_->on_change(std::move(instance));
}

void Containers::announce_removal(const std::string& id) {
  if (observer_ != nullptr) observer_->on_removed(id);
}

// ---- execd

net::awaitable<Result<bool>> Containers::ask_execd(std::string id) {
  const auto known = known_.find(id);
  if (known == known_.end()) co_return false;
  const Instance instance = instance_of(known->second);
  if (!instance.ports) co_return false;
  http::ClientRequest request;
  request.target = "/ping";
  request.headers.set("X-EXECD-ACCESS-TOKEN", instance.execd_token);
  request.headers.set("Connection", "close");
  request.timeouts.connect = request.timeouts.head = std::chrono::seconds(2);
  const auto response = co_await execd_.send(instance.ports->route(kExecdPort).origin, std::move(request));
  if (!response) co_return false;
  if (response->status == 401) {
    co_return fail(Code::Internal, "port " + std::to_string(kExecdPort) + " of the host is taken by another sandbox");
  }
  co_return response->status == 200;
}

Instance Containers::note_answer(const std::string& id) {
  Known& known = known_[id];
  known.answered = true;
  return instance_of(known);
}

net::awaitable<void> Containers::ask_all(std::chrono::milliseconds limit) {
  for (auto& [id, known] : known_) {
    if (known.answered || known.asking || hidden_.contains(id) || known.container.status != "running") continue;
    known.asking = true;
    context_.tasks.spawn("ask execd", confirm(id));
  }
  const auto all_asked = [this] {
    return std::ranges::none_of(known_, [](const auto& entry) { return entry.second.asking; });
  };
  if (!all_asked()) (void)co_await (answered_.wait_until(all_asked) || sleep_for(limit));
}

// Whether execd of a container that was found answers. One whose execd never does is left as it is: it was Running
// once, or its create ends by itself.
net::awaitable<void> Containers::confirm(std::string id) {
  const auto deadline = context_.clock.steady_now() + kConfirmLimit;
  Backoff pause(kFirstAsk, kLastAsk);
  bool answered = false;
  while (!answered && context_.clock.steady_now() < deadline) {
    const auto known = known_.find(id);
    if (known == known_.end() || known->second.container.status != "running") break;
    const auto asked = co_await ask_execd(id);
    answered = asked && *asked;
    if (!answered && !co_await sleep_for(pause.next())) co_return;
  }
  if (const auto known = known_.find(id); known != known_.end()) {
    known->second.asking = false;
    known->second.answered = answered;
  }
  answered_.notify_all();
  announce(id);
}

// ---- changes

void Containers::refresh(const std::string& id) {
  Known& known = known_[id];
  known.stale = true;
  if (std::exchange(known.refreshing, true)) return;
  context_.tasks.spawn("look at a container", run_refresh(id));
}

// An event says that something changed, the container itself says how it is. One look at a time, so that an old answer
// never comes after a newer one.
net::awaitable<void> Containers::run_refresh(std::string id) {
  Backoff pause(kFirstRetry, kLastRetry);
  for (;;) {
    auto known = known_.find(id);
    if (known == known_.end()) co_return;
    if (!known->second.stale) {
      known->second.refreshing = false;
      co_return;
    }
    known->second.stale = false;
    auto container = co_await look_up(id);
    known = known_.find(id);
    if (known == known_.end()) co_return;
    if (!container && container.error().code != Code::NotFound) {
      // The event is used up, and there may never be another one.
      known->second.stale = true;
      log_warn("a container cannot be looked at", {{"id", id}, {"error", container.error().message}});
      if (!co_await sleep_for(pause.next())) co_return;
      continue;
    }
    pause.reset();
    if (!container) {
      if (!known->second.seen()) known_.erase(known);
      continue;
    }
    const bool fresh = known->second.container.id != container->id;
    note(std::move(*container));
    known->second.refreshing = true;
    if (known->second.snapshots > 0 && known->second.container.status == "paused") continue;
    if (fresh && !known->second.answered && !std::exchange(known->second.asking, true)) {
      context_.tasks.spawn("ask execd", confirm(id));
    }
    announce(id);
  }
}

Containers::Frozen::~Frozen() {
  const auto known = all_.known_.find(id_);
  if (known == all_.known_.end()) return;
  --known->second.snapshots;
  all_.refresh(id_);
}

}  // namespace osb::runtime
