#include <algorithm>
#include <cstdint>

#include "base/ip_address.h"
#include "base/parse_number.h"
#include "base/text.h"
#include "config/sections.h"
#include "config/settings.h"

namespace osb::config {
namespace {

constexpr std::string_view kSection = "egress.upstream_proxy";
constexpr std::string_view kExpected = "expected http://HOST:PORT";

bool is_host(std::string_view host) {
  if (host.starts_with('[')) return host.ends_with(']') && parse_ip_address(host.substr(1, host.size() - 2));
  const auto fits = [](char c) { return is_letter_or_digit(c) || c == '-' || c == '.' || c == '_'; };
  return !host.empty() && std::ranges::all_of(host, fits);
}

std::string_view url_fault(std::string_view url) {
  constexpr std::string_view kScheme = "http://";
  if (url.empty()) return "";
  if (url.starts_with("https://")) return "expected http://HOST:PORT; sidecars do not speak TLS with the proxy itself";
  if (url.contains('@')) return "expected http://HOST:PORT; credentials belong into authorization";
  if (!url.starts_with(kScheme)) return kExpected;
  std::string_view host = url.substr(kScheme.size());
  if (host.ends_with('/')) host.remove_suffix(1);
  if (const std::size_t colon = host.rfind(':'); colon != std::string_view::npos && !host.ends_with(']')) {
    if (parse_number<std::uint16_t>(host.substr(colon + 1)).value_or(0) == 0) return kExpected;
    host = host.substr(0, colon);
  }
  return is_host(host) ? "" : kExpected;
}

std::string_view line_fault(std::string_view text) {
  return text.find_first_of("\r\n") == std::string_view::npos ? "" : "expected one line";
}

}  // namespace

void declare_upstream_proxy(Settings& s, UpstreamProxySection& c) {
  s.section(kSection, true);
  s.key(
      "url", c.url, Reload::Restart,
      "On docker: an HTTP proxy, `http://HOST:PORT`, that connections to ports 80 and 443 of sandboxes with a network "
      "policy go through, by CONNECT with the host's name. Creates with a network policy then need `credentialProxy`. "
      "Empty: none. sandboxd has its own setting.",
      {.fault = url_fault});
  s.key("authorization", c.authorization, Reload::Restart,
        "`Proxy-Authorization` for it, such as `Basic dXNlcjpzZWNyZXQ=`: then let only the server's user read this "
        "file.",
        {.fault = line_fault});
  s.key("ca_cert_path", c.ca_cert_path, Reload::Restart,
        "File with certificates (PEM) of the authority of a proxy that opens TLS itself; servers may be signed by it, "
        "as by `[egress] upstream_ca`. Read when a sandbox is made.");
  s.missing("ca_secret_name", "Secret with its certificate authority, on kubernetes.", "",
            "proxy for the connections of sidecars on kubernetes");
}

// A backend that would not use it would let connections pass by the proxy.
void check_upstream_proxy(TomlReader& r, RuntimeType runtime, const EgressSection& egress) {
  const UpstreamProxySection& proxy = egress.upstream_proxy;
  if (proxy.url.empty()) {
    if (!proxy.authorization.empty()) r.reject(kSection, "authorization", "needs url");
    if (!proxy.ca_cert_path.empty()) r.reject(kSection, "ca_cert_path", "needs url");
    return;
  }
  if (runtime == RuntimeType::Native) {
    r.reject(kSection, "url",
             "is for docker; with the native backend it is [egress] upstream_proxy of sandboxd's file");
  } else if (runtime == RuntimeType::Kubernetes) {
    r.reject(kSection, "url", "this server has no proxy for the connections of sidecars on kubernetes yet");
  }
  if (egress.mode != "dns+nft") r.reject(kSection, "url", "needs [egress] mode = \"dns+nft\"");
}

}  // namespace osb::config
