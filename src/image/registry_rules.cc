#include "image/registry_rules.h"

#include <algorithm>

#include "base/parse_number.h"
#include "base/text.h"
#include "image/public_address.h"

namespace osb::image {
namespace {

bool any_names(const std::vector<RegistryName>& list, const http::Url& origin) {
  return std::ranges::any_of(list, [&](const RegistryName& name) { return name.names(origin); });
}

std::string as_written(const http::Url& origin) {
  const std::string host = origin.host.contains(':') ? "[" + origin.host + "]" : origin.host;
  const bool usual = origin.port == (origin.scheme == "https" ? 443 : 80);
  return usual ? host : host + ":" + std::to_string(origin.port);
}

}  // namespace

Result<RegistryName> RegistryName::parse(std::string_view text) {
  const auto wrong = [&] {
    return fail(Code::InvalidRequest, "'" + std::string(text) + "' is no registry: expected HOST, HOST:PORT or HOST:*");
  };
  RegistryName out;
  std::string_view host = text, port;
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return wrong();
    host = text.substr(1, end - 1);
    port = text.substr(end + 1);
  } else if (const std::size_t colon = text.find(':'); colon != std::string_view::npos) {
    host = text.substr(0, colon);
    port = text.substr(colon);
  }
  if (host.empty() || host.find_first_of("/@ *?#[]") != std::string_view::npos) return wrong();
  if (!port.empty() && port.front() != ':') return wrong();
  if (port == ":*") {
    out.any_port = true;
  } else if (!port.empty()) {
    const auto number = parse_number<std::uint16_t>(port.substr(1));
    if (!number || *number == 0) return wrong();
    out.port = *number;
  }
  out.host = lower(host);
  return out;
}

bool RegistryName::names(const http::Url& origin) const {
  if (lower(origin.host) != host) return false;
  if (any_port) return true;
  return port != 0 ? origin.port == port : origin.port == 443 || origin.port == 80;
}

bool RegistryRules::lists(const http::Url& origin) const {
  return any_names(insecure, origin) || any_names(private_places, origin);
}

bool RegistryRules::may_be_plain(const http::Url& origin) const { return any_names(insecure, origin); }

Result<void> RegistryRules::check(const http::Url& origin, const std::string& address) const {
  if (any_names(insecure, origin)) return {};
  const bool listed = any_names(private_places, origin);
  if (!listed && (!is_public_address(address) || is_own_address(address))) {
    return fail(Code::Forbidden, as_written(origin) +
                                     " is on this machine or on a private network: images come from there only if the "
                                     "operator lists it in [images] private_registries of sandboxd's settings");
  }
  if (origin.scheme != "https" && !(listed && is_loopback_address(address))) {
    return fail(Code::Forbidden, as_written(origin) +
                                     " would be asked without TLS: that is done only if the operator lists it in "
                                     "[images] insecure_registries of sandboxd's settings");
  }
  return {};
}

}  // namespace osb::image
