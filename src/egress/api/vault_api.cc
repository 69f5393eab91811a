#include "egress/api/vault_api.h"

#include <algorithm>

#include <boost/json/serialize.hpp>

#include "base/stopwatch.h"
#include "egress/api/audit_routes.h"
#include "egress/api/policy_api.h"
#include "http/url.h"
#include "policy/text.h"
#include "vault/wiping_resource.h"

namespace osb::egress {
namespace {

using http::Request;
using http::Response;

constexpr std::string_view kRoot = "/credential-vault";
constexpr std::string_view kNoVault = "credential vault not found";

Response json(int status, const api::json::object& value) {
  return http::json_response(status, boost::json::serialize(value) + "\n");
}

Response json(const Result<api::json::object>& value) {
  return value ? json(200, *value) : plain_error(404, value.error().message);
}

Response not_allowed(std::string_view methods) {
  auto refused = plain_error(405, "method not allowed");
  refused.headers.set("Allow", std::string(methods));
  return refused;
}

bool is_read(const Request& request) { return request.method == "GET" || request.method == "HEAD"; }

int status_of(const Error& error) {
  switch (error.code) {
    case Code::InvalidRequest:
      return 400;
    case Code::NotFound:
      return 404;
    case Code::Conflict:
      return 409;
    default:
      return 500;
  }
}

template <typename Items>
std::string names_of(const Items& items) {
  std::string out;
  for (const auto& each : items) {
    if (!out.empty()) out += ",";
    if constexpr (requires { each.name; }) {
      out += each.name;
    } else {
      out += each;
    }
  }
  return out;
}

template <typename Items>
std::string_view source_type_of(const Items& credentials) {
  for (const auto& each : credentials) {
    if constexpr (requires { each.source; }) {
      if (each.source.is_operators()) return each.source.type();
    }
  }
  return "inline";
}

}  // namespace

// One request that changes the vault, and the lines that it leaves in the audit.
struct VaultApi::Change {
  struct Line {
    std::string_view operation;
    std::string bindings;
    std::string_view source_type = "inline";
  };
  std::string method;
  std::optional<vault::CreateRequest> create = {};
  std::optional<vault::PatchRequest> patch = {};
  std::vector<Line> lines = {};

  // The change that a body asks for; DELETE has none.
  Result<void> read(std::string_view body, const vault::BindingRules& rules) {
    if (method == "POST") {
      auto read = vault::parse_create(body, rules);
      if (!read) return Failure(read.error());
      lines.push_back({"create", names_of(read->bindings), source_type_of(read->credentials)});
      create = std::move(*read);
    } else {
      auto read = vault::parse_patch(body, rules);
      if (!read) return Failure(read.error());
      add_lines(*read);
      patch = std::move(*read);
    }
    return {};
  }

  void add_lines(const vault::PatchRequest& request) {
    const auto add = [&](std::string_view operation, const auto& credentials, const auto& bindings) {
      if (!credentials.empty() || !bindings.empty())
        lines.push_back({operation, names_of(bindings), source_type_of(credentials)});
    };
    add("runtime_delete", request.credentials.remove, request.bindings.remove);
    add("runtime_replace", request.credentials.replace, request.bindings.replace);
    add("runtime_add", request.credentials.add, request.bindings.add);
  }
};

Response VaultApi::refuse_active(const Request& request) {
  return is_read(request) ? plain_error(403, "forbidden") : not_allowed("GET");
}

net::awaitable<Response> VaultApi::handle(SandboxPtr sandbox, Request& request) {
  std::string_view path = request.path();
  path.remove_prefix(kRoot.size());
  if (path.empty()) {
    if (request.method == "POST" || request.method == "PATCH" || request.method == "DELETE") {
      co_return co_await write(std::move(sandbox), request);
    }
    if (!is_read(request)) co_return not_allowed("GET, POST, PATCH, DELETE");
    co_return sandbox->vault ? json(200, sandbox->vault->state()) : plain_error(404, kNoVault);
  }
  if (path == "/audit") co_return audit_response(sandbox, request);
  const bool credentials = path.starts_with("/credentials"), bindings = path.starts_with("/bindings");
  if (!credentials && !bindings) co_return plain_error(404, "404 page not found");
  path.remove_prefix(credentials ? std::string_view("/credentials").size() : std::string_view("/bindings").size());
  if (!path.empty() && path.front() != '/') co_return plain_error(404, "404 page not found");
  if (!is_read(request)) co_return not_allowed("GET");
  if (!sandbox->vault) co_return plain_error(404, kNoVault);
  if (path.empty()) co_return json(200, credentials ? sandbox->vault->credentials() : sandbox->vault->bindings());
  const auto decoded = http::percent_decode(path.substr(1));
  const std::string name(policy::trimmed(decoded.value_or("")));
  co_return json(credentials ? sandbox->vault->credential(name) : sandbox->vault->binding(name));
}

bool VaultApi::transport_is_good(const Request& request) const {
  // Connections over a Unix socket come from the control plane: sandboxd hands them over.
  if (!options_.require_tls || request.peer == "unix") return true;
  const auto peer = parse_ip_address(request.peer);
  if (!peer) return false;
  if (peer->v6 ? *peer == *parse_ip_address("::1") : IpPrefix{*parse_ip_address("127.0.0.0"), 8}.contains(*peer)) {
    return true;
  }
  const bool trusted =
      std::ranges::any_of(options_.trusted_proxies, [&](const IpPrefix& each) { return each.contains(*peer); });
  return trusted && request.headers.get("X-Forwarded-Proto") == "https";
}

std::optional<Response> VaultApi::gate(const Sandbox& sandbox, const Request& request) const {
  if (!options_.intercepted || !options_.intercepted(sandbox)) {
    return plain_error(412, "credential vault requires interception: create the sandbox with credentialProxy enabled");
  }
  if (!options_.verifies_upstream) {
    return plain_error(412, "credential vault requires that certificates of servers are verified");
  }
  if (!options_.proxy_up || !options_.proxy_up()) {
    return plain_error(412, "credential vault requires the interceptor, which does not run yet; try again");
  }
  if (!transport_is_good(request)) {
    auto refused = plain_error(426, "credential vault writes require TLS, or a trusted proxy that is asked over https");
    refused.headers.set("Upgrade", "TLS/1.2");
    return refused;
  }
  return std::nullopt;
}

net::awaitable<Response> VaultApi::write(SandboxPtr sandbox, Request& request) {
  const Stopwatch time;
  Change change{.method = request.method};
  Response response;
  if (auto refused = gate(*sandbox, request)) {
    response = std::move(*refused);
  } else if (change.method == "DELETE") {
    change.lines.push_back({"runtime_delete", {}});
    response = co_await apply(sandbox, change);
  } else {
    auto read = co_await request.body->read_all(vault::kMaxBody);
    const vault::WipedString body(read ? std::move(*read) : std::string());
    const auto understood = !read && read.error().code == Code::TooLarge
                                ? fail(Code::InvalidRequest, "body: larger than 1 MiB")
                            : !read ? fail(Code::InvalidRequest, "failed to read the body: " + read.error().message)
                                    : change.read(body.text, options_.rules);
    if (understood) {
      response = co_await apply(sandbox, change);
    } else {
      response = plain_error(status_of(understood.error()), understood.error().message);
    }
  }
  const bool succeeded = response.status < 300;
  audit_.count_mutation(succeeded);
  if (change.lines.empty()) change.lines.push_back({change.method == "POST" ? "create" : "runtime_replace", {}});
  for (const Change::Line& line : change.lines) {
    audit_.mutation({.sandbox_id = sandbox->id,
                     .operation = line.operation,
                     .bindings = line.bindings,
                     .source_type = line.source_type,
                     .request_id = request.headers.get("X-Request-ID"),
                     .revision = sandbox->vault ? sandbox->vault->revision() : 0,
                     .status_code = response.status,
                     .took = time.elapsed()});
  }
  co_return response;
}

// A refused change has changed nothing.
net::awaitable<Response> VaultApi::apply(SandboxPtr sandbox, Change& change) {
  const auto turn = co_await turns_.take(sandbox);
  if (!turn) co_return plain_error(500, "the change was cancelled");
  if (sandbox->gone) co_return plain_error(401, "unauthorized");
  if (change.create && sandbox->vault) co_return plain_error(409, "credential vault already exists");
  if (!change.create && !sandbox->vault) co_return plain_error(404, kNoVault);

  std::optional<vault::Vault> next;
  vault::InjectorPtr injector;
  if (change.create || change.patch) {
    auto made = change.create ? vault::Vault::create(std::move(*change.create), *sandbox->matcher)
                              : sandbox->vault->patched(std::move(*change.patch), *sandbox->matcher);
    if (!made) co_return plain_error(status_of(made.error()), made.error().message);
    auto ready = made->injector();
    if (!ready) co_return plain_error(500, ready.error().message);
    next = std::move(*made);
    injector = std::move(*ready);
  }
  if (options_.store) {
    std::optional<vault::StoredVault> stored;
    if (next) stored = next->to_stored();
    const auto kept = co_await options_.store(sandbox->id, std::move(stored));
    if (!kept) co_return plain_error(500, "failed to store the vault, nothing has changed: " + kept.error().message);
    if (sandbox->gone) co_return plain_error(401, "unauthorized");
  }
  // From here on requests see the new vault, also on connections that are open.
  sandbox->vault = std::move(next);
  sandbox->injector = std::move(injector);
  if (!sandbox->vault) co_return http::empty_response(204);
  co_return json(change.method == "POST" ? 201 : 200, sandbox->vault->state());
}

}  // namespace osb::egress
