#include <cstdlib>
#include <opensandbox/connection.h>

#include "base/text.h"
#include "client/errors.h"
#include "client/key_origin.h"
#include "http/headers.h"
#include "http/url.h"

namespace opensandbox {
namespace {

std::string from_environment(const char* name, std::string_view otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : std::string(otherwise);
}

// False for control characters, which would change the request if they stood in a header line.
bool is_header_text(std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) return false;
  }
  return true;
}

// A key that stands beside a domain in the environment is that server's.
bool environment_key_may_go(const ConnectionConfig& config) {
  const std::string domain = from_environment("OPEN_SANDBOX_DOMAIN", "");
  if (domain.empty()) return true;
  return key_may_go({domain, from_environment("OPEN_SANDBOX_PROTOCOL", "http")}, {config.domain, config.protocol});
}

}  // namespace

Result<ConnectionConfig> ConnectionConfig::resolved() const {
  ConnectionConfig out = *this;
  if (out.domain.empty()) out.domain = from_environment("OPEN_SANDBOX_DOMAIN", "localhost:8080");
  if (out.protocol.empty()) out.protocol = from_environment("OPEN_SANDBOX_PROTOCOL", "http");
  if (out.api_key.empty() && environment_key_may_go(out)) out.api_key = from_environment("OPEN_SANDBOX_API_KEY", "");
  if (const auto scheme = out.domain.find("://"); scheme != std::string::npos) {
    out.protocol = out.domain.substr(0, scheme);
    out.domain.erase(0, scheme + 3);
  }
  out.protocol = osb::lower(out.protocol);
  if (out.protocol != "http" && out.protocol != "https") {
    return invalid_argument("protocol \"" + out.protocol + "\": expected http or https");
  }
  while (out.domain.ends_with('/')) out.domain.pop_back();
  if (out.domain.ends_with("/v1")) out.domain.erase(out.domain.size() - 3);
  while (out.domain.ends_with('/')) out.domain.pop_back();
  const auto url = osb::http::Url::parse(out.protocol + "://" + out.domain);
  if (!url || url->host.empty()) {
    return invalid_argument("domain: " + (url ? "expected host or host:port" : url.error().message));
  }
  if (out.request_timeout.count() <= 0) return invalid_argument("request_timeout: must be positive");
  if (!is_header_text(out.api_key)) return invalid_argument("api_key: holds characters that no header can carry");
  for (const auto& [name, value] : out.headers) {
    if (name.empty() || !is_header_text(name) || name.find_first_of(" :") != std::string::npos ||
        !is_header_text(value)) {
      return invalid_argument("headers: \"" + name + "\" is no header or its value cannot be sent");
    }
  }
  if (out.user_agent.empty()) out.user_agent = "OpenSandbox-Cpp-SDK/" + std::string(version());
  if (!is_header_text(out.user_agent)) return invalid_argument("user_agent: cannot be sent in a header");
  return out;
}

std::string ConnectionConfig::base_url() const { return protocol + "://" + domain + "/v1"; }

std::string_view version() { return OSB_VERSION; }

}  // namespace opensandbox
