#include "http/session.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <exception>
#include <span>

#include "base/log.h"
#include "http/linger.h"
#include "http/response_writer.h"

namespace osb::http {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::size_t kCopiedBody = 1024;
constexpr std::string_view kClientHello = "\x16\x03";  // a TLS record: handshake, version 3.x

class Session {
 public:
  Session(SessionHandle& handle, const Handler& handler, const ServerOptions& options)
      : handle_(handle),
        places_(*handle.places),
        place_(*handle.place),
        connection_(handle.connection),
        transport_(*handle.connection->transport),
        handler_(handler),
        options_(options),
        limits_(options.limits) {}

  // One coroutine for all requests of the connection; what usually need not wait is a plain function below it. A
  // frame per step is what a small request would otherwise mostly cost.
  net::awaitable<void> run() {
    peer_ = transport_.peer();
    if (peer_ == "unix") places_.recognize(place_);
    do {
      begin_head();
      HeadState state = take_head();
      while (state == HeadState::Incomplete) {
        waits(connection_->in.empty() ? (served_ ? Wait::Idle : Wait::Silent) : Wait::HalfSent);
        handle_.reads_head = true;
        auto ready = co_await transport_.wait(wait_for_);
        handle_.reads_head = false;
        state = ready ? take_head() : head_interrupted(ready.error());
      }
      if (state == HeadState::Refused) co_await refuse();
      if (state != HeadState::Complete) co_return;
      begin_request();
      if (!place_.known()) begin_strangers_request();
      transport_.set_deadline(std::nullopt);  // a handler may take as long as it likes
      try {
        response_ = has_place() ? co_await handler_(request_) : no_place();
      } catch (const std::exception& bug) {
        note_exception(bug);
        response_ = problem(500, "GENERAL::INTERNAL_ERROR", "internal error");
        response_.close = true;
      }
      if (std::holds_alternative<UpgradeHandler>(response_.body)) {
        co_await run_upgrade();
        co_return;
      }
      keep_ = head_.keep_alive && !handle_.stopping && !response_.close && !place_.in_reserve() &&
              (body_->finished() || body_->cheap_to_finish());
      const bool sent = send_now() || (!handle_.cancelled && co_await send());
      report(!sent);
      if (!sent || !keep_ || handle_.stopping) {
        waits(Wait::Silent);
        if (sent && !body_->finished()) co_await linger(transport_);
        co_return;
      }
      if (!body_->finished()) waits(Wait::Silent);
      request_ = {};
      response_ = {};
    } while (body_->finished() || co_await finish_body());
  }

 private:
  using Wait = ConnectionPlaces::Wait;
  enum class HeadState { Complete, Incomplete, Refused, Ended };

  // The session is about to wait for its client: a stranger may have to go meanwhile.
  void waits(Wait what) {
    if (!place_.known()) places_.wait(place_, what, peer_);
  }

  void begin_strangers_request() {
    places_.work(place_);
    if (!options_.is_known || options_.is_known(request_)) places_.recognize(place_);
  }

  bool has_place() const { return !place_.in_reserve() || (options_.is_vital && options_.is_vital(request_)); }

  std::chrono::milliseconds head_time() const {
    const bool pressed = !place_.known() && (place_.in_reserve() || places_.pressed());
    return pressed ? std::min(limits_.pressed_time, limits_.header_time) : limits_.header_time;
  }

  void begin_request() {
    handle_.idle = false;
    served_ = true;
    if (options_.on_complete) started_ = SteadyClock::now();
    request_.method = std::move(head_.method);
    request_.target = std::move(head_.target);
    request_.headers = std::move(head_.headers);
    request_.minor_version = head_.minor_version;
    request_.peer = peer_;
    request_.connection = &transport_;
    // Most requests have none, and one that has ended serves them all.
    const bool none = head_.framing.kind == Framing::Kind::None && !head_.expect_continue;
    if (none && body_ && body_->finished() && body_->length() == 0u) {
      request_.body = body_;
      return;
    }
    body_ = std::make_shared<MessageBody>(
        connection_, head_.framing,
        MessageBody::Options{
            .stall = limits_.body_stall, .stall_code = Code::InvalidRequest, .send_continue = head_.expect_continue});
    request_.body = body_;
  }

  void begin_head() {
    ReadBuffer& in = connection_->in;
    searched_ = 0;
    handle_.idle = in.empty();
    in.shrink();
    transport_.set_timeout(handle_.idle && !place_.in_reserve() ? limits_.idle : head_time());
  }

  // Complete: head_ holds the next request. Incomplete: more bytes are needed, wait_for_ says when to try again.
  // Refused: response_ says why. Ended: the peer has left between two requests.
  HeadState take_head() {
    ReadBuffer& in = connection_->in;
    for (;;) {
      // Empty lines in front of a request are tolerated (RFC 9112, 2.2).
      while (in.data().starts_with("\r\n")) {
        in.consume(2);
        searched_ = 0;
      }
      if (in.data().starts_with(kClientHello)) return refused_tls();
      if (const std::size_t end = find_head_end(in.data(), searched_); end > 0) {
        if (end > limits_.header_bytes) return refused({Code::TooLarge, "the request head is too long"});
        auto head = parse_request_head(in.data().substr(0, end));
        if (!head) return refused(head.error());
        head_ = std::move(*head);
        in.consume(end);
        return HeadState::Complete;
      }
      if (in.empty() && handle_.stopping) return HeadState::Ended;
      const Transport::Io io = connection_->fill_now(limits_.header_bytes);
      if (io.kind == Transport::Io::Kind::Again) {
        if (handle_.idle && !in.empty()) {  // the time for a head begins with its first byte
          handle_.idle = false;
          transport_.set_timeout(head_time());
        }
        wait_for_ = io.wait_for;
        return HeadState::Incomplete;
      }
      if (io.kind == Transport::Io::Kind::Failed) {
        if (in.empty() || io.error != EMSGSIZE) return HeadState::Ended;
        return refused(Connection::fill_failure(io.error).error());
      }
      if (io.kind == Transport::Io::Kind::End) {
        if (in.empty()) return HeadState::Ended;
        return refused({Code::InvalidRequest, "the connection ended inside a request head"});
      }
    }
  }

  // An idle connection that times out or breaks just ends; only a half-sent head deserves an answer.
  HeadState head_interrupted(const Error& error) {
    if (connection_->in.empty() || error.code != Code::Timeout) return HeadState::Ended;
    return refused({Code::Timeout, "the request head took too long"});
  }

  // The head would never end, so the client would wait for the time limit.
  HeadState refused_tls() {
    if (const auto left_out = handle_.tls_lines == nullptr ? std::nullopt : handle_.tls_lines->next()) {
      log_warn("TLS spoken to a port of plain HTTP; clients must use http:// here",
               {{"peer", peer_}, {"left_out", *left_out}});
    }
    return refused({Code::InvalidRequest, "this port speaks plain HTTP: use http:// instead of https://"});
  }

  HeadState refused(const Error& error) {
    const auto [status, code] = [&]() -> std::pair<int, std::string_view> {
      switch (error.code) {
        case Code::TooLarge:
          return {431, "GENERAL::HEADERS_TOO_LARGE"};
        case Code::Timeout:
          return {408, "GENERAL::REQUEST_TIMEOUT"};
        case Code::Unsupported:
          return {error.message.starts_with("only HTTP/1") ? 505 : 501, "GENERAL::NOT_IMPLEMENTED"};
        default:
          return {400, "GENERAL::BAD_REQUEST"};
      }
    }();
    response_ = problem(status, code, error.message);
    return HeadState::Refused;
  }

  // Sends a response that is text, as far as the kernel takes it at once. True: the client has all of it; otherwise
  // send() has the rest to do.
  bool send_now() {
    body_bytes_ = 0;
    response_.headers.remove_if([](const Headers::Field& field) {  // they are the session's business
      return iequals(field.name, "Content-Length") || iequals(field.name, "Transfer-Encoding") ||
             iequals(field.name, "Connection");
    });
    auto* text = std::get_if<std::string>(&response_.body);
    if (text == nullptr) return false;
    const bool has_length = !unframed();
    out_.clear();
    append_head(out_, response_, has_length ? std::optional(text->size()) : std::nullopt, false, keep_,
                request_.minor_version);
    if (bodiless()) text->clear();
    body_bytes_ = text->size();
    // A small body is cheaper to copy than to send as a second piece.
    if (text->size() <= kCopiedBody) out_ += std::exchange(*text, {});
    pieces_ = {iovec{out_.data(), out_.size()}, iovec{text->data(), text->size()}};
    unsent_ = pieces_;
    return transport_.write_now(unsent_).kind == Transport::Io::Kind::Done;
  }

  // Sends the response, or the rest of it; true if the client has all of it.
  net::awaitable<bool> send() {
    if (auto* stream = std::get_if<StreamBody>(&response_.body)) co_return co_await send_stream(*stream);
    waits(Wait::Silent);
    transport_.set_timeout(limits_.write_stall);
    if (std::holds_alternative<std::string>(response_.body)) {
      co_return (co_await transport_.write_all(unsent_)).has_value();
    }
    const FileBody& file = std::get<FileBody>(response_.body);
    std::string head;
    append_head(head, response_, file.length, false, keep_, request_.minor_version);
    if (!co_await transport_.write_all(head)) co_return false;
    if (bodiless()) co_return true;
    body_bytes_ = file.length;
    co_return (co_await transport_.send_file(file.file.get(), file.offset, file.length)).has_value();
  }

  net::awaitable<bool> send_stream(StreamBody& stream) {
    using Mode = ResponseWriter::Mode;
    const std::optional<std::uint64_t> length = unframed() ? std::nullopt : stream.length;
    Mode mode = Mode::Chunked;
    if (bodiless()) {
      mode = Mode::Discard;
    } else if (length) {
      mode = Mode::Length;
    } else if (request_.minor_version == 0) {
      mode = Mode::UntilClose;
      keep_ = false;
    }
    const bool chunked = !length && !unframed() && request_.minor_version >= 1;
    std::string head;
    append_head(head, response_, length, chunked, keep_, request_.minor_version);
    ResponseWriter writer(*connection_, *body_, std::move(head), mode, length.value_or(0), limits_.write_stall);
    Result<void> produced;
    try {
      produced = co_await stream.produce(writer);
    } catch (const std::exception& bug) {
      note_exception(bug);
      produced = fail(Code::Internal, "internal error");
    }
    if (produced && !writer.complete()) produced = co_await writer.finish();
    body_bytes_ = writer.body_bytes();
    co_return produced.has_value() && !writer.failed();
  }

  net::awaitable<void> run_upgrade() {
    body_bytes_ = 0;
    std::string head;
    append_head(head, response_, std::nullopt, false, true, request_.minor_version);
    transport_.set_timeout(limits_.write_stall);
    const bool sent = (co_await transport_.write_all(head)).has_value();
    if (sent) {
      transport_.set_deadline(std::nullopt);
      std::string buffered(connection_->in.data());
      connection_->in.consume(buffered.size());
      connection_->in.shrink();
      try {
        co_await std::get<UpgradeHandler>(response_.body)(transport_, std::move(buffered));
      } catch (const std::exception& bug) {
        note_exception(bug);
      }
    }
    report(!sent);
  }

  net::awaitable<bool> finish_body() {
    constexpr std::uint64_t kMost = 1 << 20;
    std::uint64_t dropped = 0;
    while (!body_->finished()) {
      auto piece = co_await body_->read();
      if (!piece) co_return false;
      dropped += piece->size();
      if (dropped > kMost) co_return false;
    }
    co_return true;
  }

  // A request that could not be read: say why, if the peer still listens, and end.
  net::awaitable<void> refuse() {
    head_ = {};
    head_.method = head_.target = "-";
    begin_request();
    keep_ = false;
    waits(Wait::Silent);
    const bool sent = send_now() || co_await send();
    report(!sent);
    if (sent) co_await linger(transport_);
  }

  // A 204 or 304 has neither a body nor a length; an answer to HEAD has the length of the body it leaves out.
  bool unframed() const { return response_.status == 204 || response_.status == 304 || response_.status / 100 == 1; }
  bool bodiless() const { return request_.method == "HEAD" || unframed(); }

  void note_exception(const std::exception& bug) const {
    if (options_.on_exception && !handle_.cancelled) options_.on_exception(request_, bug);
  }

  void report(bool truncated) const {
    if (!options_.on_complete) return;
    options_.on_complete({request_, response_.status, body_bytes_, SteadyClock::now() - started_, truncated});
  }

  SessionHandle& handle_;
  ConnectionPlaces& places_;
  ConnectionPlaces::Place& place_;
  std::shared_ptr<Connection> connection_;
  Transport& transport_;
  const Handler& handler_;
  const ServerOptions& options_;
  const ServerLimits& limits_;
  std::string peer_;
  // The current request and its answer.
  RequestHead head_;
  Request request_;
  std::shared_ptr<MessageBody> body_;
  Response response_;
  SteadyClock::time_point started_;  // only if the summary is wanted
  std::uint64_t body_bytes_ = 0;     // sent
  bool keep_ = true;                 // the connection, for a next request
  bool served_ = false;              // a request has come whole
  // While a head is read.
  std::size_t searched_ = 0;
  Transport::Wait wait_for_ = Transport::Wait::Readable;
  // The data of send_now(): head and text, of which `unsent_` remains. The head's memory serves the next one too.
  std::string out_;
  std::array<iovec, 2> pieces_;
  std::span<iovec> unsent_;
};

}  // namespace

namespace {

constexpr std::string_view kNoPlaceCode = "GENERAL::TOO_MANY_CONNECTIONS";
constexpr std::string_view kNoPlace = "too many open connections, try again later";

}  // namespace

Response no_place() {
  Response response = problem(503, kNoPlaceCode, kNoPlace);
  response.headers.add("Retry-After", "1");
  response.close = true;
  return response;
}

std::string no_place_bytes() {
  Response response = no_place();
  response.headers.remove("Content-Length");
  std::string out;
  const std::string body = std::get<std::string>(response.body);
  append_head(out, response, body.size(), false, false, 1);
  return out + body;
}

net::awaitable<void> run_session(SessionHandle& handle, const Handler& handler, const ServerOptions& options) {
  Session session(handle, handler, options);
  co_await session.run();
}

}  // namespace osb::http
