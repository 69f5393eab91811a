#include "server/http/sandbox_host.h"

#include <algorithm>

#include "base/parse_number.h"
#include "base/text.h"
#include "http/headers.h"
#include "http/web_rules.h"

namespace osb::server {
namespace {

constexpr std::size_t kMaxLabel = 63;  // of DNS

// Decimal, without sign and leading zero.
std::optional<std::uint16_t> parse_port(std::string_view digits) {
  if (digits.empty() || digits.front() < '1' || digits.front() > '9') return std::nullopt;
  return parse_number<std::uint16_t>(digits);
}

bool fits_label(std::string_view id) {
  return !id.empty() && id.front() != '-' &&
         std::ranges::all_of(id, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; });
}

}  // namespace

std::optional<SandboxHost> parse_sandbox_host(std::string_view host, std::string_view domain) {
  if (domain.empty()) return std::nullopt;
  const auto split = http::split_host(host);
  if (!split || split->name.size() < domain.size() + 2) return std::nullopt;
  std::string_view label = split->name.substr(0, split->name.size() - domain.size());
  if (!label.ends_with('.') || !http::iequals(split->name.substr(label.size()), domain)) return std::nullopt;
  label.remove_suffix(1);
  if (const std::size_t dot = label.rfind('.'); dot != std::string_view::npos) label.remove_prefix(dot + 1);
  const std::size_t dash = label.rfind('-');
  if (dash == std::string_view::npos || dash == 0) return std::nullopt;
  const auto port = parse_port(label.substr(dash + 1));
  if (!port) return std::nullopt;
  SandboxHost out{std::string(label.substr(0, dash)), *port};
  out.id = lower(out.id);
  return out;
}

std::string sandbox_url(std::string_view id, std::uint16_t port, std::string_view host, std::string_view domain) {
  const auto split = http::split_host(host);
  // Names below localhost lead to the machine of the browser.
  if (domain.empty() || !split || (http::iequals(domain, "localhost") && !http::is_loopback_host(host))) return "";
  std::string label = std::string(id) + "-" + std::to_string(port);
  if (label.size() > kMaxLabel || !fits_label(id)) return "";
  std::string out = "http://" + label + "." + std::string(domain);
  if (!split->port.empty()) out.append(":").append(split->port);
  return out + "/";
}

}  // namespace osb::server
