#include "egress/api/policy_api.h"

#include "async/race.h"
#include "base/constant_time.h"
#include "egress/api/decision_routes.h"

namespace osb::egress {
namespace {

constexpr std::string_view kTokenHeader = "OPENSANDBOX-EGRESS-AUTH";
constexpr std::string_view kPolicyMethods = "GET, POST, PUT, PATCH, DELETE";

http::Response json(int status, std::string text) {
  http::Response out;
  out.status = status;
  out.headers.set("Content-Type", "application/json");
  out.body = std::move(text);
  return out;
}

int status_of_change(const Error& error) {
  return error.code == Code::InvalidRequest ? 400 : error.code == Code::TooLarge ? 413 : 500;
}

Result<policy::Change> compute(const policy::Policy& old, std::string_view method, std::string_view body,
                               std::size_t max_rules) {
  if (method == "PATCH") return policy::patch_policy(old, body, max_rules);
  if (method == "DELETE") return policy::delete_targets(old, body);
  return policy::replace_policy(body, max_rules);
}

// An id that goes back as it came; the official clients show it.
void copy_request_id(const http::Request& request, http::Response& response) {
  const std::string_view id = request.headers.get("X-Request-ID");
  const bool good = !id.empty() && id.size() <= 128 &&
                    id.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") ==
                        std::string_view::npos;
  if (good) response.headers.set("X-Request-ID", std::string(id));
}

}  // namespace

http::Response plain_error(int status, std::string_view message) {
  http::Response out;
  out.status = status;
  out.headers.set("Content-Type", "text/plain; charset=utf-8");
  out.headers.set("X-Content-Type-Options", "nosniff");
  out.body = std::string(message) + "\n";
  return out;
}

PolicyApi::PolicyApi(net::any_io_executor executor, Sandboxes& sandboxes, Enforcer& enforcer, Options options,
                     Changed changed)
    : sandboxes_(sandboxes),
      enforcer_(enforcer),
      options_(std::move(options)),
      changed_(std::move(changed)),
      turns_(std::move(executor)),
      audit_([this](std::string_view id) -> AuditTrail* {
        const SandboxPtr sandbox = sandboxes_.by_id(std::string(id));
        return sandbox ? &sandbox->vault_trail : nullptr;
      }) {
  if (options_.vault) vault_.emplace(turns_, audit_, std::move(*options_.vault));
}

net::awaitable<http::Response> PolicyApi::handle(std::string id, http::Request& request) {
  const std::string path(request.path());
  http::Response response;
  if (path == "/healthz") {
    response.headers.set("Content-Type", "text/plain; charset=utf-8");
    response.body = std::string("ok");
    co_return response;
  }
  const SandboxPtr sandbox = sandboxes_.by_id(id);
  const bool known = path == "/policy" || path == "/decisions" || path == "/credential-vault" ||
                     path.starts_with("/credential-vault/");
  if (!known) {
    response = plain_error(404, "404 page not found");
  } else if (VaultApi::is_active_route(path)) {
    response = VaultApi::refuse_active(request);
  } else if (!sandbox || sandbox->token.empty() ||
             !equal_in_constant_time(sandbox->token, request.headers.get(kTokenHeader))) {
    response = plain_error(401, "unauthorized");
  } else if (path == "/policy") {
    response = co_await policy_request(sandbox, request);
  } else if (path == "/decisions") {
    response = decisions_response(sandbox, request);
  } else if (vault_) {
    response = co_await vault_->handle(sandbox, request);
  } else {
    response = plain_error(501, "the credential vault is not part of this version");
  }
  copy_request_id(request, response);
  co_return response;
}

http::Response PolicyApi::status(const Sandbox& sandbox) const {
  policy::Status out;
  out.mode = policy::mode(sandbox.policy);
  out.enforcement_mode = enforcer_.mode();
  out.reason = options_.reason;
  out.policy = &sandbox.policy;
  return json(200, policy::encode_status(out));
}

net::awaitable<http::Response> PolicyApi::policy_request(SandboxPtr sandbox, http::Request& request) {
  const std::string& method = request.method;
  if (method == "GET" || method == "HEAD") co_return status(*sandbox);
  if (method != "PUT" && method != "POST" && method != "PATCH" && method != "DELETE") {
    auto refused = plain_error(405, "method not allowed");
    refused.headers.set("Allow", std::string(kPolicyMethods));
    co_return refused;
  }
  auto body = co_await request.body->read_all(policy::kMaxBody);
  if (!body && body.error().code == Code::TooLarge) co_return plain_error(413, "body: larger than 1 MiB");
  if (!body) co_return plain_error(400, "failed to read the body: " + body.error().message);
  const auto turn = co_await turns_.take(sandbox);
  if (!turn) co_return plain_error(500, "the change was cancelled");
  if (sandbox->gone) co_return plain_error(401, "unauthorized");
  co_return co_await change(sandbox, method, std::move(*body));
}

net::awaitable<http::Response> PolicyApi::change(SandboxPtr sandbox, std::string method, std::string body) {
  auto change = compute(sandbox->policy, method, body, options_.max_rules);
  if (!change) co_return plain_error(status_of_change(change.error()), change.error().message);
  if (!change->unchanged && sandbox->vault) {
    const policy::Matcher wanted(change->policy, sandboxes_.overlays());
    const auto covered = sandbox->vault->check_policy(wanted);
    if (!covered) co_return plain_error(400, "the credential vault forbids this policy: " + covered.error().message);
  }
  policy::Status out;
  out.reason = change->reason;
  if (!change->reset) out.enforcement_mode = enforcer_.mode();
  if (!change->unchanged) {
    const auto enforced = co_await enforcer_.set_policy(sandbox->id, sandbox->revision, change->policy);
    if (changed_) changed_(sandbox->id, *change, enforced ? nullptr : &enforced.error());
    if (!enforced) {
      co_return plain_error(500, "failed to enforce the policy, nothing has changed: " + enforced.error().message);
    }
  }
  out.mode = policy::mode(change->policy);
  co_return json(200, policy::encode_status(out));
}

}  // namespace osb::egress
