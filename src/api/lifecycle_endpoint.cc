#include "api/lifecycle_endpoint.h"

#include "api/lifecycle_error.h"
#include "base/json_escape.h"
#include "base/parse_number.h"

namespace osb::api {
namespace {

bool is_integer(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

template <typename T>
std::optional<T> to_number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  return parse_number<T>(text);
}

}  // namespace

Result<EndpointQuery> decode_endpoint_query(std::string_view port, QueryPairs query, std::string_view backend,
                                            bool signed_routes) {
  EndpointQuery out;
  if (!is_integer(port)) return unprocessable("path/port", "expected an integer");
  const std::string* expires = nullptr;
  for (const auto& [key, value] : query) {
    if (key == "expires") expires = &value;
    if (key != "use_server_proxy") continue;
    const auto proxy = parse_bool_parameter("query/use_server_proxy", value);
    if (!proxy) return Failure(proxy.error());
    out.use_server_proxy = *proxy;
  }
  if (expires != nullptr) {
    if (!is_integer(*expires)) return unprocessable("query/expires", "expected an integer");
    if (out.use_server_proxy) return invalid_parameter("query/expires", "cannot be combined with use_server_proxy");
    if (!signed_routes) {
      return refuse(Code::InvalidRequest, backend == "DOCKER" ? reason::kApiNotSupported : reason::kInvalidParameter,
                    "query/expires: signed routes need a gateway with signing keys ([ingress.secure_access])");
    }
  }
  const auto number = to_number<std::int64_t>(port);
  if (!number || *number < 1 || *number > 65535) {
    return refuse(Code::InvalidRequest, backend_reason(backend, "INVALID_PORT"), "path/port: must be from 1 to 65535");
  }
  out.port = static_cast<std::uint16_t>(*number);
  if (expires != nullptr) {
    out.expires = to_number<std::uint64_t>(*expires);
    if (!out.expires) return invalid_parameter("query/expires", "must be from 0 to 18446744073709551615");
  }
  return out;
}

Result<void> check_route_expiry(std::uint64_t expires, std::uint64_t now) {
  if (expires > now) return {};
  return invalid_parameter("query/expires", "is not in the future");
}

std::string encode_endpoint(const Endpoint& endpoint) {
  std::string out = R"({"endpoint":)";
  append_json_string(out, endpoint.endpoint);
  if (!endpoint.headers.empty()) {
    out += R"(,"headers":)";
    char before = '{';
    for (const auto& [name, value] : endpoint.headers) {
      out += before;
      before = ',';
      append_json_string(out, name);
      out += ':';
      append_json_string(out, value);
    }
    out += '}';
  }
  if (!endpoint.browser_url.empty()) {
    out += R"(,"browserUrl":)";
    append_json_string(out, endpoint.browser_url);
  }
  out += '}';
  return out;
}

std::string server_proxy_endpoint(std::string_view eip, std::string_view host, std::string_view prefix,
                                  std::string_view id, std::uint16_t port) {
  std::string_view base = eip.empty() ? host : eip;
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (base.starts_with(scheme)) base.remove_prefix(scheme.size());
  }
  while (base.ends_with('/')) base.remove_suffix(1);
  return std::string(base) + std::string(eip.empty() ? prefix : "") + "/sandboxes/" + std::string(id) + "/proxy/" +
         std::to_string(port);
}

}  // namespace osb::api
