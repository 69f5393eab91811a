#include "http/session.h"

#include <cerrno>
#include <chrono>
#include <exception>

#include "http/response_writer.h"

namespace osb::http {
namespace {

using SteadyClock = std::chrono::steady_clock;

class Session {
 public:
  Session(SessionHandle& handle, const Handler& handler, const ServerOptions& options)
      : handle_(handle),
        connection_(handle.connection),
        transport_(*handle.connection->transport),
        handler_(handler),
        options_(options),
        limits_(options.limits) {}

  net::awaitable<void> run() {
    peer_ = transport_.peer();
    while (co_await serve_one()) {
    }
  }

 private:
  // False: the connection is over. Request and response are members, not locals: coroutine frames above about a
  // kilobyte miss Asio's cache and cost a trip to malloc per request.
  net::awaitable<bool> serve_one() {
    auto got = co_await read_head();
    if (!got) {
      if (got.error().code != Code::Cancelled) co_await refuse(got.error());
      co_return false;
    }
    if (!*got) co_return false;  // the peer left between requests
    handle_.idle = false;
    const auto started = SteadyClock::now();
    begin_request();
    transport_.set_deadline(std::nullopt);  // a handler may take as long as it likes
    try {
      response_ = co_await handler_(request_);
    } catch (const std::exception& bug) {
      if (options_.on_exception) options_.on_exception(request_, bug);
      response_ = problem(500, "GENERAL::INTERNAL_ERROR", "internal error");
      response_.close = true;
    }
    if (std::holds_alternative<UpgradeHandler>(response_.body)) {
      co_await run_upgrade(started);
      co_return false;
    }
    bool keep =
        head_.keep_alive && !handle_.stopping && !response_.close && (body_->finished() || body_->cheap_to_finish());
    const bool sent = co_await send(keep, started);
    if (!sent || !keep || handle_.stopping) {
      // Unread input would turn our close into a reset that can destroy the response on its way: take in a little,
      // for a short time, as long as the peer has not read the end.
      if (sent && !body_->finished()) co_await linger();
      co_return false;
    }
    request_ = {};
    response_ = {};
    if (body_->finished()) co_return true;
    co_return co_await finish_body();
  }

  void begin_request() {
    request_.method = std::move(head_.method);
    request_.target = std::move(head_.target);
    request_.headers = std::move(head_.headers);
    request_.minor_version = head_.minor_version;
    request_.peer = peer_;
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

  // True: head_ holds the next request; false: the peer ended the connection between two of them.
  net::awaitable<Result<bool>> read_head() {
    ReadBuffer& in = connection_->in;
    std::size_t searched = 0;
    bool started = !in.empty();
    handle_.idle = !started;
    in.shrink();
    transport_.set_timeout(started ? limits_.header_time : limits_.idle);
    for (;;) {
      // Empty lines in front of a request are tolerated (RFC 9112, 2.2).
      while (in.data().starts_with("\r\n")) {
        in.consume(2);
        searched = 0;
      }
      if (const std::size_t end = find_head_end(in.data(), searched); end > 0) {
        if (end > limits_.header_bytes) co_return fail(Code::TooLarge, "the request head is too long");
        auto head = parse_request_head(in.data().substr(0, end));
        if (!head) co_return Failure(head.error());
        head_ = std::move(*head);
        in.consume(end);
        co_return true;
      }
      if (in.empty() && handle_.stopping) co_return false;
      // An idle connection that times out or breaks just ends; only a half-sent head deserves an answer.
      const Transport::Io io = connection_->fill_now(limits_.header_bytes);
      if (io.kind == Transport::Io::Kind::Again) {
        auto ready = co_await transport_.wait(io.wait_for);
        if (ready) continue;
        if (in.empty()) co_return false;
        if (ready.error().code == Code::Timeout) co_return fail(Code::Timeout, "the request head took too long");
        co_return fail(Code::Cancelled, ready.error().message);
      }
      if (io.kind == Transport::Io::Kind::Failed) {
        if (in.empty()) co_return false;
        if (io.error == EMSGSIZE) co_return Connection::fill_failure(io.error);
        co_return fail(Code::Cancelled, "the connection broke");
      }
      if (io.kind == Transport::Io::Kind::End) {
        if (in.empty()) co_return false;
        co_return fail(Code::InvalidRequest, "the connection ended inside a request head");
      }
      if (!started) {
        started = true;
        handle_.idle = false;
        transport_.set_timeout(limits_.header_time);
      }
    }
  }

  // Sends the response; true if the client has all of it.
  net::awaitable<bool> send(bool& keep, SteadyClock::time_point started) {
    response_.headers.remove("Content-Length");
    response_.headers.remove("Transfer-Encoding");
    response_.headers.remove("Connection");
    const bool head_only = request_.method == "HEAD";
    const bool bodiless =
        head_only || response_.status == 204 || response_.status == 304 || response_.status / 100 == 1;
    std::uint64_t bytes = 0;
    bool sent = false;
    if (auto* text = std::get_if<std::string>(&response_.body)) {
      const bool has_length = head_only || !bodiless;
      const std::string head = serialize_head(response_, has_length ? std::optional(text->size()) : std::nullopt, false,
                                              keep, request_.minor_version);
      iovec pieces[] = {{const_cast<char*>(head.data()), head.size()}, {text->data(), bodiless ? 0 : text->size()}};
      std::span<iovec> left = pieces;
      sent = transport_.write_now(left).kind == Transport::Io::Kind::Done;
      if (!sent) {
        transport_.set_timeout(limits_.write_stall);
        sent = (co_await transport_.write_all(left)).has_value();
      }
      bytes = bodiless ? 0 : text->size();
    } else if (auto* file = std::get_if<FileBody>(&response_.body)) {
      const std::string head = serialize_head(response_, file->length, false, keep, request_.minor_version);
      transport_.set_timeout(limits_.write_stall);
      sent = (co_await transport_.write_all(head)).has_value();
      if (sent && !bodiless) {
        sent = (co_await transport_.send_file(file->file.get(), file->offset, file->length)).has_value();
        bytes = file->length;
      }
    } else if (auto* stream = std::get_if<StreamBody>(&response_.body)) {
      sent = co_await send_stream(*stream, bodiless, keep, bytes);
    }
    report(response_.status, bytes, started, !sent);
    co_return sent;
  }

  net::awaitable<bool> send_stream(StreamBody& stream, bool bodiless, bool& keep, std::uint64_t& bytes) {
    using Mode = ResponseWriter::Mode;
    // A 204 or 304 has neither a body nor a length; an answer to HEAD has the length of the body it leaves out.
    const bool unframed = response_.status == 204 || response_.status == 304 || response_.status / 100 == 1;
    const std::optional<std::uint64_t> length = unframed ? std::nullopt : stream.length;
    Mode mode = Mode::Chunked;
    if (bodiless) {
      mode = Mode::Discard;
    } else if (length) {
      mode = Mode::Length;
    } else if (request_.minor_version == 0) {
      mode = Mode::UntilClose;
      keep = false;
    }
    const bool chunked = !length && !unframed && request_.minor_version >= 1;
    ResponseWriter writer(*connection_, *body_,
                          serialize_head(response_, length, chunked, keep, request_.minor_version), mode,
                          length.value_or(0), limits_.write_stall);
    Result<void> produced;
    try {
      produced = co_await stream.produce(writer);
    } catch (const std::exception& bug) {
      if (options_.on_exception) options_.on_exception(request_, bug);
      produced = fail(Code::Internal, "internal error");
    }
    if (produced && !writer.complete()) produced = co_await writer.finish();
    bytes = writer.body_bytes();
    co_return produced.has_value() && !writer.failed();
  }

  net::awaitable<void> run_upgrade(SteadyClock::time_point started) {
    std::string head = serialize_head(response_, std::nullopt, false, true, request_.minor_version);
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
        if (options_.on_exception) options_.on_exception(request_, bug);
      }
    }
    report(response_.status, 0, started, !sent);
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

  net::awaitable<void> linger() {
    transport_.shutdown_write();
    transport_.set_timeout(std::chrono::seconds(2));
    const auto until = SteadyClock::now() + std::chrono::seconds(2);
    connection_->in.consume(connection_->in.size());
    std::vector<char> sink(16 * 1024);
    while (SteadyClock::now() < until) {
      transport_.set_deadline(until);
      auto got = co_await transport_.read_some(sink);
      if (!got || *got == 0) co_return;
    }
  }

  // A request that could not be read: say why, if the peer still listens, and end.
  net::awaitable<void> refuse(const Error& error) {
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
    head_ = {};
    head_.method = head_.target = "-";
    begin_request();
    handle_.idle = false;
    bool keep = false;
    if (co_await send(keep, SteadyClock::now())) co_await linger();
  }

  void report(int status, std::uint64_t bytes, SteadyClock::time_point started, bool truncated) const {
    if (!options_.on_complete) return;
    options_.on_complete({request_, status, bytes, SteadyClock::now() - started, truncated});
  }

  SessionHandle& handle_;
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
};

}  // namespace

net::awaitable<void> run_session(SessionHandle& handle, const Handler& handler, const ServerOptions& options) {
  Session session(handle, handler, options);
  co_await session.run();
}

}  // namespace osb::http
