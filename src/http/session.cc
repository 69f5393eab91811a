#include "http/session.h"

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
  // False: the connection is over.
  net::awaitable<bool> serve_one() {
    auto head = co_await read_head();
    if (!head) {
      if (head.error().code != Code::Cancelled) co_await refuse(head.error());
      co_return false;
    }
    if (!*head) co_return false;  // the peer left between requests
    handle_.idle = false;
    const auto started = SteadyClock::now();

    RequestHead& in = **head;
    Request request;
    request.method = std::move(in.method);
    request.target = std::move(in.target);
    request.headers = std::move(in.headers);
    request.minor_version = in.minor_version;
    request.peer = peer_;
    body_ = std::make_shared<MessageBody>(
        connection_, in.framing,
        MessageBody::Options{
            .stall = limits_.body_stall, .stall_code = Code::InvalidRequest, .send_continue = in.expect_continue});
    request.body = body_;

    Response response = co_await call_handler(request);
    if (auto* upgrade = std::get_if<UpgradeHandler>(&response.body)) {
      co_await run_upgrade(request, response, *upgrade, started);
      co_return false;
    }
    const bool keep =
        in.keep_alive && !handle_.stopping && !response.close && (body_->finished() || body_->cheap_to_finish());
    const bool sent = co_await send(request, response, keep, started);
    if (!sent || !keep || handle_.stopping) {
      // Unread input would turn our close into a reset that can destroy the response on its way: take in a little,
      // for a short time, as long as the peer has not read the end.
      if (sent && !body_->finished()) co_await linger();
      co_return false;
    }
    co_return co_await finish_body(*body_);
  }

  net::awaitable<Result<std::optional<RequestHead>>> read_head() {
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
        in.consume(end);
        co_return std::optional(std::move(*head));
      }
      if (in.empty() && handle_.stopping) co_return std::optional<RequestHead>();
      auto got = co_await connection_->fill(limits_.header_bytes);
      if (!got) {
        // An idle connection that times out or breaks just ends; only a half-sent head deserves an answer.
        if (in.empty()) co_return std::optional<RequestHead>();
        if (got.error().code == Code::Timeout) co_return fail(Code::Timeout, "the request head took too long");
        if (got.error().code != Code::TooLarge) co_return fail(Code::Cancelled, got.error().message);
        co_return Failure(got.error());
      }
      if (*got == 0) {
        if (in.empty()) co_return std::optional<RequestHead>();
        co_return fail(Code::InvalidRequest, "the connection ended inside a request head");
      }
      if (!started) {
        started = true;
        handle_.idle = false;
        transport_.set_timeout(limits_.header_time);
      }
    }
  }

  net::awaitable<Response> call_handler(Request& request) {
    try {
      co_return co_await handler_(request);
    } catch (const std::exception& bug) {
      if (options_.on_exception) options_.on_exception(request, bug);
    }
    Response response = problem(500, "GENERAL::INTERNAL_ERROR", "internal error");
    response.close = true;
    co_return response;
  }

  // Sends the response; true if the client has all of it.
  net::awaitable<bool> send(Request& request, Response& response, bool keep, SteadyClock::time_point started) {
    response.headers.remove("Content-Length");
    response.headers.remove("Transfer-Encoding");
    response.headers.remove("Connection");
    const bool head_only = request.method == "HEAD";
    const bool bodiless = head_only || response.status == 204 || response.status == 304 || response.status / 100 == 1;
    transport_.set_timeout(limits_.write_stall);
    std::uint64_t bytes = 0;
    bool sent = false;
    if (auto* text = std::get_if<std::string>(&response.body)) {
      const bool has_length = head_only || !bodiless;
      const std::string head = serialize_head(response, has_length ? std::optional(text->size()) : std::nullopt, false,
                                              keep, request.minor_version);
      const iovec pieces[] = {{const_cast<char*>(head.data()), head.size()},
                              {text->data(), bodiless ? 0 : text->size()}};
      sent = (co_await transport_.write_all(pieces)).has_value();
      bytes = bodiless ? 0 : text->size();
    } else if (auto* file = std::get_if<FileBody>(&response.body)) {
      const std::string head = serialize_head(response, file->length, false, keep, request.minor_version);
      sent = (co_await transport_.write_all(head)).has_value();
      if (sent && !bodiless) {
        sent = (co_await transport_.send_file(file->file.get(), file->offset, file->length)).has_value();
        bytes = file->length;
      }
    } else if (auto* stream = std::get_if<StreamBody>(&response.body)) {
      sent = co_await send_stream(request, response, *stream, bodiless, keep, bytes);
    }
    report(request, response.status, bytes, started, !sent);
    co_return sent;
  }

  net::awaitable<bool> send_stream(Request& request, Response& response, StreamBody& stream, bool bodiless, bool& keep,
                                   std::uint64_t& bytes) {
    using Mode = ResponseWriter::Mode;
    // A 204 or 304 has neither a body nor a length; an answer to HEAD has the length of the body it leaves out.
    const bool unframed = response.status == 204 || response.status == 304 || response.status / 100 == 1;
    const std::optional<std::uint64_t> length = unframed ? std::nullopt : stream.length;
    Mode mode = Mode::Chunked;
    if (bodiless) {
      mode = Mode::Discard;
    } else if (length) {
      mode = Mode::Length;
    } else if (request.minor_version == 0) {
      mode = Mode::UntilClose;
      keep = false;
    }
    const bool chunked = !length && !unframed && request.minor_version >= 1;
    ResponseWriter writer(*connection_, *body_, serialize_head(response, length, chunked, keep, request.minor_version),
                          mode, length.value_or(0), limits_.write_stall);
    Result<void> produced;
    try {
      produced = co_await stream.produce(writer);
    } catch (const std::exception& bug) {
      if (options_.on_exception) options_.on_exception(request, bug);
      produced = fail(Code::Internal, "internal error");
    }
    if (produced) produced = co_await writer.finish();
    bytes = writer.body_bytes();
    co_return produced.has_value() && !writer.failed();
  }

  net::awaitable<void> run_upgrade(Request& request, Response& response, UpgradeHandler& upgrade,
                                   SteadyClock::time_point started) {
    std::string head = serialize_head(response, std::nullopt, false, true, request.minor_version);
    transport_.set_timeout(limits_.write_stall);
    const bool sent = (co_await transport_.write_all(head)).has_value();
    if (sent) {
      transport_.set_deadline(std::nullopt);
      std::string buffered(connection_->in.data());
      connection_->in.consume(buffered.size());
      connection_->in.shrink();
      try {
        co_await upgrade(transport_, std::move(buffered));
      } catch (const std::exception& bug) {
        if (options_.on_exception) options_.on_exception(request, bug);
      }
    }
    report(request, response.status, 0, started, !sent);
  }

  net::awaitable<bool> finish_body(MessageBody& body) {
    constexpr std::uint64_t kMost = 1 << 20;
    std::uint64_t dropped = 0;
    while (!body.finished()) {
      auto piece = co_await body.read();
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
    Response response = error.code == Code::TooLarge      ? problem(431, "GENERAL::HEADERS_TOO_LARGE", error.message)
                        : error.code == Code::Timeout     ? problem(408, "GENERAL::REQUEST_TIMEOUT", error.message)
                        : error.code == Code::Unsupported ? problem(501, "GENERAL::NOT_IMPLEMENTED", error.message)
                                                          : problem(400, "GENERAL::BAD_REQUEST", error.message);
    if (error.message.starts_with("only HTTP/1")) response.status = 505;
    Request nobody;
    nobody.body = body_ = std::make_shared<MessageBody>(connection_, Framing{}, MessageBody::Options{});
    nobody.method = "-";
    nobody.target = "-";
    nobody.peer = peer_;
    handle_.idle = false;
    if (co_await send(nobody, response, false, SteadyClock::now())) co_await linger();
  }

  void report(const Request& request, int status, std::uint64_t bytes, SteadyClock::time_point started,
              bool truncated) const {
    if (!options_.on_complete) return;
    options_.on_complete({request, status, bytes, SteadyClock::now() - started, truncated});
  }

  SessionHandle& handle_;
  std::shared_ptr<Connection> connection_;
  Transport& transport_;
  const Handler& handler_;
  const ServerOptions& options_;
  const ServerLimits& limits_;
  std::string peer_;
  std::shared_ptr<MessageBody> body_;  // of the current request
};

}  // namespace

net::awaitable<void> run_session(SessionHandle& handle, const Handler& handler, const ServerOptions& options) {
  Session session(handle, handler, options);
  co_await session.run();
}

}  // namespace osb::http
