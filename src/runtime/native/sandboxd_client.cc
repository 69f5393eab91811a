#include "runtime/native/sandboxd_client.h"

#include "api/json.h"
#include "base/line_splitter.h"
#include "http/status.h"

namespace osb::runtime {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxAnswer = 64 << 20;  // a list of all sandboxes
constexpr std::size_t kMaxLine = 64 << 20;

Failure unreachable(const std::string& socket, const Error& why) {
  Error error(Code::Unavailable, "sandboxd at " + socket + ": " + why.message);
  error.reason = "NATIVE::UNAVAILABLE";
  return Failure(std::move(error));
}

// sandboxd itself is there when it answers, so nothing is unavailable.
Code code_of(int status) {
  const Code code = http::code_of(status);
  if (code == Code::Unprocessable) return Code::InvalidRequest;
  return code == Code::Unavailable || code == Code::Timeout ? Code::Internal : code;
}

Failure refused(int status, const std::string& body) {
  Error error(code_of(status), "sandboxd answered " + std::to_string(status));
  if (const auto value = api::parse_json(body)) {
    api::ObjectReader reader(*value, {});
    if (auto reason = reader.optional_string("code")) error.reason = *reason;
    if (auto message = reader.optional_string("message")) error.message = *message;
  }
  return Failure(std::move(error));
}

net::awaitable<Result<std::string>> read_answer(const std::string& socket, http::ClientResponse response) {
  if (!response.body) co_return unreachable(socket, Error(Code::Unavailable, "unexpected upgrade"));
  auto body = co_await response.body->read_all(kMaxAnswer);
  if (!body) co_return unreachable(socket, body.error());
  if (response.status >= 300) co_return refused(response.status, *body);
  co_return std::move(*body);
}

Result<json::value> parse_answer(const Result<std::string>& body) {
  if (!body) return Failure(body.error());
  if (body->empty()) return json::value();
  auto value = api::parse_json(*body);
  if (!value) return with_context("answer of sandboxd", value.error());
  return value;
}

}  // namespace

SandboxdClient::SandboxdClient(std::string socket, std::chrono::milliseconds timeout)
    : socket_(std::move(socket)), timeout_(timeout), client_(http::make_plain_connector()) {}

net::awaitable<Result<http::ClientResponse>> SandboxdClient::send(std::string method, std::string target,
                                                                  std::string body,
                                                                  std::shared_ptr<http::BodySource> stream,
                                                                  Patience patience) {
  http::ClientRequest request;
  request.method = std::move(method);
  request.target = std::move(target);
  if (!body.empty()) request.headers.set("Content-Type", "application/json");
  request.body = std::move(body);
  request.stream = std::move(stream);
  request.timeouts.head = patience == Patience::Short ? timeout_ : std::chrono::milliseconds(0);
  auto response = co_await client_.send("unix:" + socket_, std::move(request));
  if (!response) co_return unreachable(socket_, response.error());
  co_return std::move(*response);
}

net::awaitable<Result<json::value>> SandboxdClient::call(std::string method, std::string target, std::string body,
                                                         Patience patience) {
  auto response = co_await send(std::move(method), std::move(target), std::move(body), nullptr, patience);
  if (!response) co_return Failure(response.error());
  auto text = co_await read_answer(socket_, std::move(*response));
  co_return parse_answer(text);
}

net::awaitable<Result<std::string>> SandboxdClient::text(std::string target) {
  auto response = co_await send("GET", std::move(target), "", nullptr, Patience::Short);
  if (!response) co_return Failure(response.error());
  co_return co_await read_answer(socket_, std::move(*response));
}

net::awaitable<Result<std::shared_ptr<http::BodySource>>> SandboxdClient::download(std::string target) {
  auto response = co_await send("GET", std::move(target), "", nullptr, Patience::Unlimited);
  if (!response) co_return Failure(response.error());
  if (response->status < 300 && response->body) co_return std::shared_ptr<http::BodySource>(std::move(response->body));
  const auto refusal = co_await read_answer(socket_, std::move(*response));
  co_return Failure(refusal ? Error(Code::Internal, "sandboxd sent no archive") : refusal.error());
}

net::awaitable<Result<json::value>> SandboxdClient::upload(std::string target, std::shared_ptr<http::BodySource> body) {
  auto response = co_await send("POST", std::move(target), "", std::move(body), Patience::Unlimited);
  if (!response) co_return Failure(response.error());
  auto text = co_await read_answer(socket_, std::move(*response));
  co_return parse_answer(text);
}

net::awaitable<Result<void>> SandboxdClient::lines(std::string method, std::string target, std::string body,
                                                   std::function<Result<void>(const json::value&)> on_line) {
  auto response = co_await send(std::move(method), std::move(target), std::move(body), nullptr, Patience::Short);
  if (!response) co_return Failure(response.error());
  if (response->status >= 300 || !response->body) {
    const auto refusal = co_await read_answer(socket_, std::move(*response));
    co_return Failure(refusal ? Error(Code::Internal, "sandboxd sent no stream") : refusal.error());
  }
  LineSplitter splitter;
  Result<void> taken;
  for (;;) {
    auto piece = co_await response->body->read();
    if (!piece) co_return unreachable(socket_, piece.error());
    if (piece->empty()) co_return Result<void>();
    splitter.feed(*piece, [&](std::string_view line) {
      if (!taken) return;
      const auto value = api::parse_json(line);
      taken = value ? on_line(*value) : Result<void>(with_context("stream of sandboxd", value.error()));
    });
    if (!taken) co_return taken;
    if (splitter.pending() > kMaxLine) co_return fail(Code::Internal, "sandboxd sent a line without an end");
  }
}

}  // namespace osb::runtime
