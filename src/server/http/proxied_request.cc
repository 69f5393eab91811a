#include "server/http/proxied_request.h"

#include <algorithm>
#include <array>

#include "base/ports.h"
#include "server/access/secure_access.h"

namespace osb::server {
namespace {

using http::Request;
using http::Response;

constexpr std::string_view kTimeout = "BACKEND_TIMEOUT";
constexpr std::string_view kResponseFailed = "BACKEND_RESPONSE_FAILED";

// For the server itself, or about the client's way to it.
constexpr std::array<std::string_view, 9> kOwnFields = {
    "OPEN-SANDBOX-API-KEY", kSecureAccessHeader, "OpenSandbox-Access-Renew", "Forwarded", "X-Forwarded-For",
    "X-Forwarded-Host",     "X-Forwarded-Port",  "X-Forwarded-Proto",        "X-Real-IP"};

class MarkingConnector final : public http::Connector {
 public:
  explicit MarkingConnector(std::unique_ptr<http::Connector> inner) : inner_(std::move(inner)) {}

  net::awaitable<Result<std::unique_ptr<http::Transport>>> connect(std::string origin,
                                                                   std::chrono::milliseconds timeout) override {
    auto transport = co_await inner_->connect(std::move(origin), timeout);
    if (!transport) transport.error().reason = kConnectionFailed;
    co_return transport;
  }

 private:
  std::unique_ptr<http::Connector> inner_;
};

Response failure(std::string_view code, const std::string& id, std::uint16_t port) {
  const std::string where = "port " + std::to_string(port) + " of sandbox " + id;
  if (code == kTimeout) return http::problem(504, code, where + " did not answer in time");
  if (code == kResponseFailed) return http::problem(502, code, where + " broke off or gave no valid HTTP answer");
  return http::problem(502, kConnectionFailed, where + " takes no connections; is a server listening on it?");
}

}  // namespace

std::string_view proxy_prefix(const Request& request) {
  const std::string_view path = request.path();
  const int skip = path.starts_with("/v1/") ? 5 : 4;
  std::size_t at = 0;
  for (int i = 0; i < skip && at != std::string_view::npos; ++i) at = path.find('/', at + 1);
  return path.substr(0, at);
}

std::string target_inside(const Request& request, NamedBy by) {
  std::string_view target = request.target;
  if (by == NamedBy::Path) target.remove_prefix(proxy_prefix(request).size());
  return target.starts_with('/') ? std::string(target) : "/" + std::string(target == "*" ? "" : target);
}

bool is_policy_api(const SandboxRecord& record, std::uint16_t port) {
  return port == kEgressPort && !record.egress_token.empty();
}

void set_forwarded_fields(http::ProxyTarget& target, const Request& request, NamedBy by, std::uint16_t port) {
  target.drop.insert(target.drop.end(), kOwnFields.begin(), kOwnFields.end());
  if (port != kExecdPort) target.drop.emplace_back("X-EXECD-ACCESS-TOKEN");
  if (by == NamedBy::Path) {
    // These belong to the API's host.
    target.drop.insert(target.drop.end(), {"Authorization", "Cookie"});
    target.host = "sandbox:" + std::to_string(port);
  }
  target.add.set("X-Forwarded-Proto", "http");
  if (const std::string_view host = request.headers.get("Host"); !host.empty()) {
    target.add.set("X-Forwarded-Host", std::string(host));
  }
  if (!request.peer.empty()) target.add.set("X-Forwarded-For", request.peer);
}

void rewrite_location(http::Headers& headers, std::string_view prefix) {
  const std::string* location = headers.find("Location");
  if (location == nullptr || !location->starts_with('/') || location->starts_with("//")) return;
  headers.set("Location", std::string(prefix) + *location);
}

std::string public_prefix(const Request& request, std::string_view eip) {
  if (eip.empty()) return std::string(proxy_prefix(request));
  if (const std::size_t scheme = eip.find("://"); scheme != std::string_view::npos) eip.remove_prefix(scheme + 3);
  eip.remove_prefix(std::min(eip.find('/'), eip.size()));
  while (eip.ends_with('/')) eip.remove_suffix(1);
  std::string_view route = proxy_prefix(request);
  if (route.starts_with("/v1/")) route.remove_prefix(3);
  return std::string(eip) + std::string(route);
}

std::unique_ptr<http::Connector> make_marking_connector(std::unique_ptr<http::Connector> inner) {
  return std::make_unique<MarkingConnector>(std::move(inner));
}

Response proxy_failure(const Error& why, const std::string& id, std::uint16_t port) {
  if (why.reason == kConnectionFailed) return failure(kConnectionFailed, id, port);
  return failure(why.code == Code::Timeout ? kTimeout : kResponseFailed, id, port);
}

void name_failure_of_execd(Response& response, const std::string& id, std::uint16_t port) {
  const std::string* code = response.headers.find(http::kProxyFailureHeader);
  if (code != nullptr) response = failure(*code, id, port);
}

}  // namespace osb::server
