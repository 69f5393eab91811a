#include "intercept/h2_relay.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <boost/asio/this_coro.hpp>

#include "async/race.h"
#include "base/stopwatch.h"

namespace osb::intercept {
namespace {

constexpr std::chrono::milliseconds kIdle{600'000};  // without a stream and a byte, as in HTTP/1.1
constexpr std::size_t kCompact = 64 * 1024;
constexpr int kClientLeft = 499;

bool is_grpc(const http::Headers& fields) { return fields.get("content-type").starts_with("application/grpc"); }

// gRPC's own table for answers of proxies.
int grpc_status(int status) {
  switch (status) {
    case 400:
      return 13;  // INTERNAL
    case 403:
      return 7;  // PERMISSION_DENIED
    case 502:
    case 504:
      return 14;  // UNAVAILABLE
    default:
      return 2;  // UNKNOWN
  }
}

// grpc-message is percent-encoded.
std::string grpc_message(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  while (text.ends_with('\n')) text.remove_suffix(1);
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f && c != '%') {
      out += c;
    } else {
      out += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return out;
}

bool is_compressed(const http::Headers& fields) {
  for (const char* name : {"content-encoding", "grpc-encoding"}) {
    const std::string_view coding = fields.get(name);
    if (!coding.empty() && !http::iequals(coding, "identity")) return true;
  }
  return false;
}

}  // namespace

// Bytes on their way from one side to the other.
struct H2Relay::Pipe {
  std::string bytes;
  std::size_t taken = 0;  // of them
  std::size_t owed = 0;   // bytes that the sender's window lacks until they have left
  bool ended = false;
  http::Headers trailers;
  std::unique_ptr<StreamFilter> filter;

  void put(std::string_view piece) {
    owed += piece.size();
    if (filter) {
      filter->write(piece, bytes);
    } else {
      bytes += piece;
    }
  }
  void end(http::Headers last) {
    ended = true;
    trailers = std::move(last);
    if (filter) filter->finish(bytes);
  }
  // A filter may hold bytes back or change their number, so the sender gets all back once nothing waits.
  std::size_t take(std::span<char> into, std::size_t& free) {
    const std::size_t size = std::min(into.size(), bytes.size() - taken);
    std::memcpy(into.data(), bytes.data() + taken, size);
    taken += size;
    free = taken == bytes.size() ? owed : std::min(owed, size);
    owed -= free;
    if (taken == bytes.size()) {
      bytes.clear();
      taken = 0;
      if (bytes.capacity() > kCompact) bytes = {};
    } else if (taken >= kCompact) {
      bytes.erase(0, taken);
      taken = 0;
    }
    return size;
  }
};

struct H2Relay::Stream {
  std::int32_t client = 0, host = 0;  // its numbers; 0: none
  bool client_open = true, host_open = false;
  bool begun = false;     // the head of the answer has been given to client_
  bool sent = false;      // the client has all of the answer
  bool finished = false;  // Rules has heard of it
  bool grpc = false;
  std::string method;
  Stopwatch time;
  std::optional<Verdict> verdict;
  Pipe request, answer;
};

// The events of one side: `streams` are those that are open there.
class H2Relay::From : public H2Events {
 public:
  From(H2Relay& relay, const Streams& streams) : relay_(relay), streams_(streams) {}

 protected:
  Stream* find(std::int32_t id) const {
    const auto found = streams_.find(id);
    return found != streams_.end() ? found->second.get() : nullptr;
  }
  static Pulled pull_from(Pipe& pipe, std::span<char> into, std::size_t& free) {
    Pulled out;
    out.bytes = pipe.take(into, free);
    out.ended = pipe.ended && pipe.bytes.empty();
    if (out.ended) out.trailers = std::move(pipe.trailers);
    return out;
  }

  H2Relay& relay_;
  const Streams& streams_;
};

class H2Relay::FromClient final : public From {
 public:
  using From::From;

  void on_head(std::int32_t id, H2Head head, bool ended) override { relay_.on_request(id, std::move(head), ended); }
  void on_data(std::int32_t id, std::string_view piece) override {
    Stream* stream = find(id);
    if (stream == nullptr || !stream->host_open) return relay_.client_.session().consume(id, piece.size());
    stream->request.put(piece);
    relay_.host_->session().resume(stream->host);
  }
  void on_end(std::int32_t id, http::Headers trailers) override {
    Stream* stream = find(id);
    if (stream == nullptr) return;
    stream->request.end(std::move(trailers));
    if (stream->host_open) relay_.host_->session().resume(stream->host);
  }
  // The host, or we, have answered before the client has sent everything: it can stop.
  void on_sent_end(std::int32_t id) override {
    Stream* stream = find(id);
    if (stream == nullptr) return;
    stream->sent = true;
    if (!stream->host_open && !stream->request.ended) relay_.client_.session().reset(id, H2Code::None);
  }
  void on_closed(std::int32_t id, H2Code code) override { relay_.client_closed(id, code); }
  void on_goaway() override {}
  Pulled pull(std::int32_t id, std::span<char> into) override {
    Stream* stream = find(id);
    if (stream == nullptr) return {};
    std::size_t free = 0;
    Pulled out = pull_from(stream->answer, into, free);
    if (relay_.host_) relay_.host_->session().consume(stream->host, free);
    return out;
  }
};

class H2Relay::FromHost final : public From {
 public:
  using From::From;

  void on_head(std::int32_t id, H2Head head, bool ended) override {
    if (Stream* stream = find(id)) relay_.on_answer(*stream, std::move(head), ended);
  }
  void on_data(std::int32_t id, std::string_view piece) override {
    Stream* stream = find(id);
    if (stream == nullptr || !stream->client_open) return relay_.host_->session().consume(id, piece.size());
    stream->answer.put(piece);
    relay_.client_.session().resume(stream->client);
  }
  void on_end(std::int32_t id, http::Headers trailers) override {
    Stream* stream = find(id);
    if (stream == nullptr) return;
    if (stream->verdict->clean_value) trailers.change_values(stream->verdict->clean_value);
    stream->answer.end(std::move(trailers));
    relay_.client_.session().resume(stream->client);
  }
  void on_sent_end(std::int32_t) override {}
  void on_closed(std::int32_t id, H2Code code) override { relay_.host_closed(id, code); }
  // The client opens a new connection for further requests.
  void on_goaway() override { relay_.client_.session().go_away(H2Code::None); }
  Pulled pull(std::int32_t id, std::span<char> into) override {
    Stream* stream = find(id);
    if (stream == nullptr) return {};
    std::size_t free = 0;
    Pulled out = pull_from(stream->request, into, free);
    relay_.client_.session().consume(stream->client, free);
    return out;
  }
};

H2Relay::H2Relay(Rules& rules, const OpenedConnection& opened, std::unique_ptr<http::Transport> client,
                 Upstream upstream, const H2Limits& limits)
    : rules_(rules),
      opened_(opened),
      from_client_(std::make_unique<FromClient>(*this, by_client_)),
      from_host_(std::make_unique<FromHost>(*this, by_host_)),
      client_(std::move(client), H2Session::Role::Server, *from_client_, limits, [this] { pump(); }) {
  if (upstream) {
    host_.emplace(std::move(*upstream), H2Session::Role::Client, *from_host_, limits, [this] { pump(); });
  } else {
    unreachable_ = std::move(upstream.error());
  }
}

H2Relay::~H2Relay() = default;

net::awaitable<void> H2Relay::run() {
  using namespace race;
  const auto no_streams = [this] { return by_client_.empty(); };
  (void)co_await (client_.run(kIdle, no_streams) || run_upstream());
  for (auto& [id, stream] : by_client_) finish(*stream, kClientLeft);
  if (host_) host_->leave();
  co_await client_.linger();
}

// Ends only by being cancelled: streams that wait for the host get their answers from client_.
net::awaitable<void> H2Relay::run_upstream() {
  if (host_) {
    const auto outcome = co_await host_->run(kIdle, [this] { return by_host_.empty(); });
    // The client left, not the host.
    if ((co_await net::this_coro::cancellation_state).cancelled() != net::cancellation_type::none) co_return;
    const std::string why = outcome ? "the host closed the connection" : outcome.error().message;
    for (const auto& [id, stream] : std::exchange(by_host_, {})) {
      stream->host_open = false;
      if (!stream->client_open || stream->answer.ended) continue;
      if (stream->begun) {
        client_.session().reset(stream->client, H2Code::Internal);
      } else {
        answer(*stream, 502, stream->verdict->subject + ": " + why);
      }
    }
    client_.session().go_away(H2Code::None);
    pump();
  }
  Event never(co_await net::this_coro::executor);
  (void)co_await never.wait();
}

void H2Relay::pump() {
  for (bool more = true; more;) {
    more = client_.flush();
    if (host_ && host_->flush()) more = true;  // it may have opened windows of the client
  }
}

void H2Relay::on_request(std::int32_t id, H2Head head, bool ended) {
  const auto stream = std::make_shared<Stream>();
  by_client_[id] = stream;
  stream->client = id;
  stream->method = head.method;
  stream->request.ended = ended;
  stream->grpc = is_grpc(head.fields);
  if (head.oversize) return answer(*stream, 431, "the request's fields are too long");
  // Forms that would mean one thing to us and another to the host.
  if (head.method == "CONNECT") return answer(*stream, 405, "CONNECT is not passed on to hosts with credentials");
  if (head.scheme != "https") return answer(*stream, 400, "the request's scheme is not https");
  if (const std::string* host = head.fields.find("host")) {
    if (head.authority.empty()) head.authority = *host;
    if (*host != head.authority) {  // libnghttp2 has refused a second one
      return answer(*stream, 400, "the request's Host is not its authority");
    }
    head.fields.remove("host");
  }
  http::Request request;
  request.method = head.method;
  request.target = head.path;
  request.headers = head.fields;
  request.headers.set("host", head.authority);
  if (const auto refused = opened_.refuse(request)) {
    return answer(*stream, refused->status, std::get<std::string>(refused->body));
  }
  stream->verdict.emplace(rules_.judge(opened_.flow(), "https", opened_.host(), request));
  if (stream->verdict->kind == Verdict::Kind::Answer) {
    return answer(*stream, stream->verdict->status, stream->verdict->message);
  }
  pass_on(stream, std::move(head), ended);
}

void H2Relay::pass_on(const StreamPtr& stream, H2Head head, bool ended) {
  Verdict& verdict = *stream->verdict;
  if (!host_) {
    const int status = unreachable_.code == Code::Timeout ? 504 : 502;
    answer(*stream, status, (verdict.subject.empty() ? opened_.host() : verdict.subject) + ": " + unreachable_.message);
    return client_.session().go_away(H2Code::None);  // the next connection tries again
  }
  if (verdict.target) head.path = *verdict.target;
  for (const auto& [name, value] : verdict.headers) head.fields.remove(name);
  if (verdict.filter_answer) {  // a compressed body could not be cleaned
    head.fields.set("accept-encoding", "identity");
    if (stream->grpc) head.fields.set("grpc-accept-encoding", "identity");
  }
  if (verdict.filter_request && !ended) {
    stream->request.filter = verdict.filter_request();
    head.fields.remove("content-length");
  }
  const auto opened = host_->session().request(head, verdict.headers, verdict.target.has_value(), !ended);
  verdict.headers.wipe();
  if (verdict.target) {
    ::explicit_bzero(verdict.target->data(), verdict.target->size());
    ::explicit_bzero(head.path.data(), head.path.size());
  }
  if (!opened) return client_.session().reset(stream->client, H2Code::Refused);
  stream->host = *opened;
  stream->host_open = true;
  by_host_[*opened] = stream;
}

void H2Relay::on_answer(Stream& stream, H2Head head, bool ended) {
  if (!stream.client_open) return;
  if (head.status < 200) {
    if (head.status == 100) client_.session().respond_interim(stream.client, 100);
    return;
  }
  const Verdict& verdict = *stream.verdict;
  if (head.oversize || (verdict.filter_answer && !ended && is_compressed(head.fields))) {
    host_->session().reset(stream.host, H2Code::Cancel);
    stream.answer.ended = true;
    host_closed(stream.host, H2Code::Cancel);
    return answer(
        stream, 502,
        verdict.subject + (head.oversize ? ": the fields of the host's answer are too long"
                                         : ": the host compressed its answer, so that secrets in it cannot be found"));
  }
  if (verdict.clean_value) head.fields.change_values(verdict.clean_value);
  if (verdict.filter_answer && !ended) {
    stream.answer.filter = verdict.filter_answer();
    head.fields.remove("content-length");
  }
  stream.begun = true;
  stream.answer.ended = ended;
  client_.session().respond(stream.client, head, !ended);
  finish(stream, head.status);
}

// Our own answer. Programs with gRPC see the text too, in the fields that it has for that.
void H2Relay::answer(Stream& stream, int status, std::string text) {
  if (!text.ends_with('\n')) text += '\n';
  H2Head head;
  head.status = status;
  const bool with_body = !stream.grpc && stream.method != "HEAD";
  if (stream.grpc) {
    head.fields = {{"content-type", "application/grpc"},
                   {"grpc-status", std::to_string(grpc_status(status))},
                   {"grpc-message", grpc_message(text)}};
  } else {
    head.fields = {{"content-type", "text/plain; charset=utf-8"}, {"content-length", std::to_string(text.size())}};
  }
  stream.begun = true;
  stream.answer = {};
  if (with_body) stream.answer.bytes = std::move(text);
  stream.answer.ended = true;
  client_.session().respond(stream.client, head, with_body);
  finish(stream, status);
}

void H2Relay::finish(Stream& stream, int status) {
  if (!stream.verdict || std::exchange(stream.finished, true)) return;
  rules_.finished(opened_.flow(), *stream.verdict, {opened_.host(), stream.method, status, stream.time.elapsed()});
}

void H2Relay::client_closed(std::int32_t id, H2Code code) {
  const auto found = by_client_.extract(id);
  if (found.empty()) return;
  Stream& stream = *found.mapped();
  stream.client_open = false;
  finish(stream, kClientLeft);
  if (!host_) return;
  host_->session().consume(stream.host, std::exchange(stream.answer.owed, 0));
  // With both messages complete, the host closes the stream by itself.
  if (stream.host_open && !(code == H2Code::None && stream.request.ended && stream.answer.ended)) {
    host_->session().reset(stream.host, code == H2Code::None ? H2Code::Cancel : code);
  }
}

void H2Relay::host_closed(std::int32_t id, H2Code code) {
  const auto found = by_host_.extract(id);
  if (found.empty()) return;
  Stream& stream = *found.mapped();
  stream.host_open = false;
  client_.session().consume(stream.client, std::exchange(stream.request.owed, 0));
  if (!stream.client_open) return;
  if (stream.answer.ended) {
    if (stream.sent && !stream.request.ended) client_.session().reset(stream.client, H2Code::None);
    return;
  }
  finish(stream, 502);
  client_.session().reset(stream.client, code == H2Code::None ? H2Code::Internal : code);
}

}  // namespace osb::intercept
