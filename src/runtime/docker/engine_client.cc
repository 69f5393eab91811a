#include "runtime/docker/engine_client.h"

#include <cerrno>
#include <filesystem>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/json/serialize.hpp>

#include "api/json.h"
#include "base/json_escape.h"
#include "base/parse_number.h"
#include "http/status.h"
#include "http/url.h"
#include "runtime/docker/engine_json.h"
#include "tls/connector.h"

namespace osb::runtime {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxAnswer = 64 << 20;  // a list of all containers
constexpr std::size_t kMaxPlainText = 200;
constexpr std::uint16_t kPlainPort = 2375, kTlsPort = 2376;

Failure unreachable(const std::string& name, const Error& why) {
  Error error(Code::Unavailable, "container engine at " + name + ": " + why.message, why.sys_errno);
  error.reason = "DOCKER::UNAVAILABLE";
  return Failure(std::move(error));
}

Failure refused(int status, const std::string& body) {
  const Code code = status == 401 ? Code::Forbidden : http::code_of(status);
  Error error(code, "the engine answered " + std::to_string(status));
  if (const auto value = api::parse_json(body)) {
    std::string message = engine::text(*value, {"message"});
    // Podman says the same in two pieces.
    if (message.empty()) message = engine::text(*value, {"cause"});
    if (!message.empty()) error.message = std::move(message);
  } else if (!body.empty()) {
    // "Client sent an HTTP request to an HTTPS server." and the like.
    error.message += ": " + in_quotes(body.substr(0, kMaxPlainText));
  }
  return Failure(std::move(error));
}

Result<std::shared_ptr<const tls::ClientContext>> tls_context(const EngineAddress& address) {
  const std::filesystem::path directory = address.cert_path;
  auto identity = tls::Identity::load(directory / "cert.pem", directory / "key.pem");
  if (!identity) return with_context("DOCKER_CERT_PATH", identity.error());
  tls::ClientOptions options;
  options.ca_file = directory / "ca.pem";
  options.identity = std::move(*identity);
  auto context = tls::ClientContext::make(options);
  if (!context) return with_context("DOCKER_CERT_PATH", context.error());
  return context;
}

// A connection to a machine that is gone reports nothing by itself, and a stream of events has no writes that would
// fail.
class LivelyConnector final : public http::Connector {
 public:
  explicit LivelyConnector(std::unique_ptr<http::Connector> inner) : inner_(std::move(inner)) {}

  net::awaitable<Result<std::unique_ptr<http::Transport>>> connect(std::string origin,
                                                                   std::chrono::milliseconds timeout) override {
    auto made = co_await inner_->connect(std::move(origin), timeout);
    if (made) keep_alive((*made)->native_fd());
    co_return made;
  }

 private:
  // Noticed within two minutes. Not a TCP socket: not set, and not needed.
  static void keep_alive(int fd) {
    const auto set = [fd](int level, int option, int value) { ::setsockopt(fd, level, option, &value, sizeof value); };
    set(SOL_SOCKET, SO_KEEPALIVE, 1);
    set(IPPROTO_TCP, TCP_KEEPIDLE, 60);
    set(IPPROTO_TCP, TCP_KEEPINTVL, 15);
    set(IPPROTO_TCP, TCP_KEEPCNT, 4);
  }

  std::unique_ptr<http::Connector> inner_;
};

}  // namespace

Result<ApiVersion> parse_api_version(std::string_view text) {
  if (const auto minor = parse_number<int>(text.starts_with("1.") ? text.substr(2) : "")) return ApiVersion{*minor};
  return fail(Code::Unsupported, "the engine's API version '" + std::string(text) + "' is not 1.N");
}

Result<std::unique_ptr<EngineClient>> EngineClient::open(net::any_io_executor executor, const EngineAddress& address,
                                                         std::chrono::milliseconds timeout) {
  std::string_view host = address.host;
  std::string origin;
  std::shared_ptr<const tls::ClientContext> context;
  if (host.starts_with("unix:")) {
    const auto url = http::Url::parse(host);
    if (!url) return with_context("DOCKER_HOST", url.error());
    origin = "unix:" + url->host;
  } else if (host.starts_with("tcp://") || host.starts_with("http://") || host.starts_with("https://")) {
    const bool tls = address.tls || host.starts_with("https://");
    const std::string scheme = tls ? "https" : "http";
    const std::string rest(host.substr(host.find("://") + 3));
    auto url = http::Url::parse(scheme + "://" + rest);
    if (!url) return with_context("DOCKER_HOST", url.error());
    const bool has_port =
        rest.find(':', rest.rfind(']') == std::string::npos ? 0 : rest.rfind(']')) != std::string::npos;
    const std::uint16_t port = has_port ? url->port : tls ? kTlsPort : kPlainPort;
    const std::string name = url->host.find(':') == std::string::npos ? url->host : "[" + url->host + "]";
    origin = scheme + "://" + name + ":" + std::to_string(port);
    if (address.tls && !address.cert_path.empty()) {
      auto made = tls_context(address);
      if (!made) return Failure(made.error());
      context = std::move(*made);
    }
  } else {
    return fail(Code::InvalidRequest, "DOCKER_HOST: '" + address.host + "' is neither unix:// nor tcp://");
  }
  auto connector = std::make_unique<LivelyConnector>(tls::make_connector(executor, std::move(context)));
  return std::unique_ptr<EngineClient>(
      new EngineClient(std::move(origin), address.host, std::move(connector), timeout));
}

EngineClient::EngineClient(std::string origin, std::string name, std::unique_ptr<http::Connector> connector,
                           std::chrono::milliseconds timeout)
    : origin_(std::move(origin)), name_(std::move(name)), timeout_(timeout), client_(std::move(connector)) {}

std::string EngineClient::remote_host() const {
  if (unix_socket()) return "";
  const std::string rest = origin_.substr(origin_.find("://") + 3);
  return rest.substr(0, rest.rfind(':'));
}

net::awaitable<Result<json::value>> EngineClient::negotiate() {
  version_ = {};
  auto answer = co_await call({.target = "/version"});
  if (!answer) {
    Error error = answer.error();
    // With TLS 1.3 a client whose certificate is refused learns of it after the handshake, mostly by a closed
    // connection.
    if (origin_.starts_with("https:") && error.code == Code::Unavailable && error.sys_errno != ECONNREFUSED &&
        !error.message.contains("certificate")) {
      error.message += "; it may not accept the certificate of DOCKER_CERT_PATH";
    }
    co_return Failure(std::move(error));
  }
  const auto engine = parse_api_version(engine::text(*answer, {"ApiVersion"}));
  if (!engine) co_return with_context("container engine at " + name_, engine.error());
  const auto oldest = parse_api_version(engine::text(*answer, {"MinAPIVersion"}));
  if (engine->minor < kOldestApi || (oldest && oldest->minor > kNewestApi)) {
    co_return fail(Code::Unsupported, "container engine at " + name_ + " speaks API " + engine->to_string() +
                                          ", needed is 1." + std::to_string(kOldestApi) + " to 1." +
                                          std::to_string(kNewestApi));
  }
  version_.minor = std::min(engine->minor, kNewestApi);
  co_return answer;
}

net::awaitable<Result<http::ClientResponse>> EngineClient::send(Call call, std::string raw_body) {
  http::ClientRequest request;
  request.method = std::move(call.method);
  request.target = version_.minor > 0 ? "/v" + version_.to_string() + call.target : std::move(call.target);
  request.headers = std::move(call.headers);
  request.body = std::move(raw_body);
  if (!call.body.is_null()) {
    request.body = json::serialize(call.body);
    request.headers.set("Content-Type", "application/json");
  }
  request.timeouts.head = call.patience == Patience::Short ? timeout_ : std::chrono::milliseconds(0);
  auto response = co_await client_.send(origin_, std::move(request));
  if (!response) co_return unreachable(name_, response.error());
  if (!response->body) co_return unreachable(name_, Error(Code::Unavailable, "unexpected upgrade"));
  if (response->status >= 400) {
    const auto body = co_await response->body->read_all(kMaxAnswer);
    if (!body) co_return unreachable(name_, body.error());
    co_return refused(response->status, *body);
  }
  co_return std::move(*response);
}

net::awaitable<Result<json::value>> EngineClient::call(Call call) {
  auto response = co_await send(std::move(call), "");
  if (!response) co_return Failure(response.error());
  const auto body = co_await response->body->read_all(kMaxAnswer);
  if (!body) co_return unreachable(name_, body.error());
  if (body->empty()) co_return json::value();
  auto value = api::parse_json(*body);
  // Some answers ("OK") are no JSON; no caller uses those.
  if (!value) co_return json::value();
  co_return std::move(*value);
}

net::awaitable<Result<std::string>> EngineClient::bytes(std::string target, std::size_t limit) {
  auto response = co_await send({.target = std::move(target)}, "");
  if (!response) co_return Failure(response.error());
  auto body = co_await response->body->read_all(limit);
  if (!body && body.error().code != Code::TooLarge) co_return unreachable(name_, body.error());
  co_return body;
}

net::awaitable<Result<std::unique_ptr<http::BodySource>>> EngineClient::body(Call call) {
  auto response = co_await send(std::move(call), "");
  if (!response) co_return Failure(response.error());
  co_return std::move(response->body);
}

net::awaitable<Result<void>> EngineClient::put(std::string target, std::string content_type, std::string body) {
  Call call{.method = "PUT", .target = std::move(target)};
  call.headers.set("Content-Type", std::move(content_type));
  auto response = co_await send(std::move(call), std::move(body));
  if (!response) co_return Failure(response.error());
  const auto rest = co_await response->body->read_all(kMaxAnswer);
  if (!rest) co_return unreachable(name_, rest.error());
  co_return Result<void>();
}

net::awaitable<Result<std::unique_ptr<EngineClient::Stream>>> EngineClient::stream(Call call) {
  auto response = co_await send(std::move(call), "");
  if (!response) co_return Failure(response.error());
  co_return std::make_unique<Stream>(name_, std::move(*response));
}

net::awaitable<Result<json::value>> EngineClient::Stream::next() {
  for (;;) {
    auto document = lines_.next();
    if (!document) co_return Failure(document.error());
    if (*document) co_return std::move(**document);
    if (ended_) co_return json::value();
    auto piece = co_await response_.body->read();
    if (!piece) co_return unreachable(name_, piece.error());
    lines_.add(*piece);
    ended_ = piece->empty();
    if (ended_) lines_.finish();
  }
}

}  // namespace osb::runtime
