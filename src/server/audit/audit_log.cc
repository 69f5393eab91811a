#include "server/audit/audit_log.h"

#include <algorithm>
#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/json_escape.h"
#include "base/log.h"
#include "base/parse_number.h"
#include "base/ports.h"
#include "base/time.h"
#include "http/path_token.h"
#include "http/url.h"
#include "tls/sha256.h"

namespace osb::server {
namespace {

struct Action {
  std::string_view method, route, name;
};
constexpr Action kActions[] = {
    {"POST", "/sandboxes", "create"},
    {"DELETE", "/sandboxes/{id}", "delete"},
    {"PATCH", "/sandboxes/{id}/metadata", "patch-metadata"},
    {"POST", "/sandboxes/{id}/renew-expiration", "renew"},
    {"POST", "/sandboxes/{id}/pause", "pause"},
    {"POST", "/sandboxes/{id}/resume", "resume"},
    {"POST", "/sandboxes/{id}/snapshots", "snapshot"},
    {"DELETE", "/snapshots/{id}", "delete-snapshot"},
    {"POST", "/templates", "create-template"},
    {"DELETE", "/templates/{id}", "delete-template"},
    {"POST", "/sandboxes/{id}/credential-vault", "create-vault"},
    {"PATCH", "/sandboxes/{id}/credential-vault", "patch-vault"},
    {"DELETE", "/sandboxes/{id}/credential-vault", "delete-vault"},
    {"POST", "/images/pull", "pull-image"},
    {"POST", "/images/load", "load-image"},
    {"DELETE", "/images", "delete-image"},
};

std::string_view without_version(std::string_view route) { return route.starts_with("/v1/") ? route.substr(3) : route; }

// A text field of one of our own answers; ids and codes need no unescaping.
std::string_view field_of(const http::Response& response, std::string_view name) {
  const std::string* body = std::get_if<std::string>(&response.body);
  if (body == nullptr) return "";
  const std::string key = fmt::format("\"{}\":\"", name);
  const std::size_t begin = body->find(key);
  if (begin == std::string::npos) return "";
  const std::size_t end = body->find('"', begin + key.size());
  return end == std::string::npos ? "" : std::string_view(*body).substr(begin + key.size(), end - begin - key.size());
}

bool is_execd_port(std::string_view digits) { return parse_number<std::uint16_t>(digits) == kExecdPort; }

// Whether execd was asked to run something: a command, code, a session's command, a terminal. The path is read as
// execd reads it: without the token it may begin with, decoded, and through its own port proxy, which leads to itself.
bool runs_something(const http::Request& request) {
  if (!is_execd_port(request.params["port"])) return false;
  std::string target = "/" + request.params["rest"];
  http::take_path_token(target);
  const auto decoded = http::percent_decode(std::string_view(target).substr(1));
  if (!decoded) return false;
  std::string_view rest = *decoded;
  while (rest.starts_with("proxy/")) {
    const std::size_t end = rest.find('/', 6);
    if (end == std::string_view::npos || !is_execd_port(rest.substr(6, end - 6))) return false;
    rest.remove_prefix(end + 1);
  }
  if (rest.ends_with('/')) rest.remove_suffix(1);
  if (rest == "pty" || rest.starts_with("pty/")) return request.method == "POST" || rest.ends_with("/ws");
  if (request.method != "POST") return false;
  return rest == "command" || rest == "code" || (rest.starts_with("session/") && rest.ends_with("/run"));
}

}  // namespace

std::string_view audited_action(std::string_view method, std::string_view route) {
  route = without_version(route);
  for (const Action& action : kActions) {
    if (action.method == method && action.route == route) return action.name;
  }
  return route.starts_with("/sandboxes/{id}/proxy/{port}") ? "exec" : "";
}

std::string key_fingerprint(std::string_view key) {
  const auto sum = tls::sha256(fmt::format("opensandbox audit\n{}", key));
  std::string out;
  for (std::size_t i = 0; i < 6; ++i) out += fmt::format("{:02x}", sum[i]);
  return out;
}

Result<AuditLog> AuditLog::open(const std::string& path, std::uint64_t rotate_bytes, int keep_files) {
  AuditLog log;
  if (path.empty()) return log;
  std::error_code ignored;  // opening the file says it better
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  log.file_.emplace(path, rotate_bytes, keep_files);
  if (auto opened = log.file_->open(); !opened) return with_context("[log] audit_file_path", opened.error());
  return log;
}

void AuditLog::note(const http::Request& request, const http::Response& response) {
  const std::string_view action = audited_action(request.method, request.route);
  if (action.empty()) return;
  const bool exec = action == "exec";
  if (exec && (response.status >= 400 || !runs_something(request))) return;

  std::string_view sandbox, snapshot, of_template;
  const std::string_view made = response.status < 400 ? field_of(response, "id") : "";
  if (action == "create-template") {
    of_template = response.status < 400 ? field_of(response, "templateId") : "";
  } else if (action == "delete-template") {
    of_template = request.params["id"];
  } else if (action == "create") {
    sandbox = made;
  } else if (action == "delete-snapshot") {
    snapshot = request.params["id"];
  } else {
    sandbox = request.params["id"];
    if (action == "snapshot") snapshot = made;
  }
  const std::string* key = exec ? nullptr : request.headers.find("OPEN-SANDBOX-API-KEY");
  const std::string who = exec ? "execd-token" : key == nullptr ? "none" : key_fingerprint(*key);
  const std::string_view code = response.status >= 400 ? field_of(response, "code") : "";

  if (!file_) {
    log_info("audit", {{"action", action},
                       {"status", response.status},
                       {"sandbox", sandbox},
                       {"snapshot", snapshot},
                       {"template", of_template},
                       {"code", code},
                       {"key", who},
                       {"peer", request.peer},
                       {"request_id", request.request_id}});
    return;
  }
  std::string line = fmt::format(R"({{"time":"{}","action":"{}","status":{})",
                                 format_timestamp(std::chrono::floor<std::chrono::microseconds>(system_clock().now())),
                                 action, response.status);
  const auto add = [&line](std::string_view name, std::string_view value) {
    if (value.empty()) return;
    line += fmt::format(",\"{}\":", name);
    append_json_string(line, value);
  };
  add("sandbox", sandbox);
  add("snapshot", snapshot);
  add("template", of_template);
  add("code", code);
  add("key", who);
  add("peer", request.peer);
  add("request_id", request.request_id);
  line += "}\n";
  file_->write(line);
}

http::Handler with_audit(http::Handler inner, AuditLog& log) {
  const auto held = std::make_shared<const http::Handler>(std::move(inner));
  return [held, &log](http::Request& request) -> net::awaitable<http::Response> {
    http::Response response = co_await (*held)(request);
    log.note(request, response);
    co_return response;
  };
}

}  // namespace osb::server
