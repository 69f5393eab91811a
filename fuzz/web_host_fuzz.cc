// Fields of strangers' requests and of sandboxes' answers that decide who may talk to whom: Host, Origin, the paths of
// proxied ports, and cookies.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "execd/proxy/port_proxy.h"
#include "http/headers.h"
#include "http/web_rules.h"
#include "server/http/proxied_answer.h"
#include "server/http/sandbox_host.h"

namespace {

constexpr std::string_view kPrefix = "/v1/sandboxes/x/proxy/80";

bool lies_within(std::string_view part, std::string_view text) {
  return part.empty() || (part.data() >= text.data() && part.data() + part.size() <= text.data() + text.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto host = osb::http::split_host(text)) {
    if (!lies_within(host->name, text) || !lies_within(host->port, text)) std::abort();
    if (host->port.find_first_not_of("0123456789") != std::string_view::npos) std::abort();
  }
  const osb::http::WebRules rules{.hosts = {"example.com", "*.example.org"}, .origins = {"https://chat.example.com"}};
  (void)rules.allows_host(text);
  (void)rules.allows_origin(text, "example.com");
  (void)osb::http::is_json_type(text);
  (void)osb::server::parse_sandbox_host(text, "localhost");
  (void)osb::execd::parse_proxy_path(text);

  const std::string cookie = osb::server::confined_cookie(text, kPrefix);
  if (cookie.find_first_of("\r\n") != std::string::npos && text.find_first_of("\r\n") == std::string_view::npos) {
    std::abort();
  }
  osb::http::Headers headers;
  for (const char* name : {"Set-Cookie", "Content-Security-Policy", "Content-Type", "Clear-Site-Data"}) {
    headers.add(name, std::string(text));
  }
  osb::http::Headers other = headers;
  osb::server::confine_to_path(headers, kPrefix);
  osb::server::confine_to_host(other);
  if (headers.contains("Clear-Site-Data") || headers.contains("Service-Worker-Allowed")) std::abort();
  return 0;
}
