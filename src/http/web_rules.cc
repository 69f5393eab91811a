#include "http/web_rules.h"

#include <algorithm>
#include <arpa/inet.h>
#include <netinet/in.h>

#include "base/text.h"

namespace osb::http {
namespace {

constexpr std::string_view kLocalhost = "localhost";

bool is_name_character(char c) { return is_letter_or_digit(c) || c == '-' || c == '.' || c == '_'; }

// inet_pton needs a terminated text; addresses are short.
template <typename Bytes>
bool parse_ip(int family, std::string_view text, Bytes& out) {
  char buffer[INET6_ADDRSTRLEN];
  if (text.empty() || text.size() >= sizeof buffer) return false;
  *std::ranges::copy(text, buffer).out = '\0';
  return ::inet_pton(family, buffer, &out) == 1;
}

bool is_loopback_address(std::string_view name) {
  in_addr four{};
  if (is_digit(name.empty() ? '\0' : name.front()) && parse_ip(AF_INET, name, four)) {
    return ntohl(four.s_addr) >> 24 == 127;
  }
  in6_addr six{};
  if (!name.contains(':') || !parse_ip(AF_INET6, name, six)) return false;
  return IN6_IS_ADDR_LOOPBACK(&six) || (IN6_IS_ADDR_V4MAPPED(&six) && six.s6_addr[12] == 127);
}

bool ends_with_name(std::string_view name, std::string_view tail) {
  return name.size() > tail.size() && iequals(name.substr(name.size() - tail.size()), tail);
}

// The text behind "http://" or "https://", and the port that this scheme has unless another is given.
struct Origin {
  std::string_view host;
  std::string_view port;
};
std::optional<Origin> split_origin(std::string_view origin) {
  for (const auto& [scheme, port] : {std::pair{"http://", "80"}, std::pair{"https://", "443"}}) {
    if (origin.starts_with(scheme)) return Origin{origin.substr(std::string_view(scheme).size()), port};
  }
  return std::nullopt;
}

std::string_view media_type(std::string_view content_type) {
  return trim_ows(content_type.substr(0, content_type.find(';')));
}

}  // namespace

std::optional<HostPort> split_host(std::string_view text) {
  HostPort out;
  std::string_view rest;
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    in6_addr ignored{};
    if (end == std::string_view::npos || !parse_ip(AF_INET6, text.substr(1, end - 1), ignored)) return std::nullopt;
    out.name = text.substr(1, end - 1);
    rest = text.substr(end + 1);
  } else {
    const std::size_t end = std::min(text.find(':'), text.size());
    out.name = text.substr(0, end);
    if (!std::ranges::all_of(out.name, is_name_character)) return std::nullopt;
    if (out.name.ends_with('.')) out.name.remove_suffix(1);
    if (out.name.empty() || out.name.ends_with('.')) return std::nullopt;
    rest = text.substr(end);
  }
  if (rest.empty()) return out;
  out.port = rest.substr(1);
  if (rest.front() != ':' || out.port.size() > 5 || !std::ranges::all_of(out.port, is_digit)) return std::nullopt;
  return out;
}

bool is_loopback_host(std::string_view host) {
  if (is_loopback_address(host)) return true;  // "::1" without brackets
  const auto split = split_host(host);
  return split && (iequals(split->name, kLocalhost) || is_loopback_address(split->name));
}

bool is_below_localhost(std::string_view host) {
  const auto split = split_host(host);
  return split && ends_with_name(split->name, ".localhost") && !split->name.starts_with('.');
}

bool is_json_type(std::string_view content_type) {
  const std::string_view type = media_type(content_type);
  return iequals(type, "application/json") || (type.contains('/') && ends_with_name(type, "+json"));
}

bool is_form_type(std::string_view content_type) {
  const std::string_view type = media_type(content_type);
  return type.empty() || content_type.contains(',') || iequals(type, "text/plain") ||
         iequals(type, "multipart/form-data") || iequals(type, "application/x-www-form-urlencoded");
}

bool WebRules::allows_host(std::string_view host) const {
  if (!check_host || is_loopback_host(host) || is_below_localhost(host)) return true;
  const auto split = split_host(host);
  return split && std::ranges::any_of(hosts, [&](std::string_view each) {
           if (each.starts_with("*.")) return ends_with_name(split->name, each.substr(1));
           return iequals(each, split->name);
         });
}

bool WebRules::names_origin(std::string_view origin) const {
  return std::ranges::any_of(origins, [&](const std::string& each) { return iequals(each, origin); });
}

bool WebRules::allows_origin(std::string_view origin, std::string_view host) const {
  if (is_same_origin(origin, host) || names_origin(origin)) return true;
  if (std::ranges::find(origins, "*") != origins.end()) return true;
  const auto split = split_origin(origin);
  return loopback_origins && split && is_loopback_host(split->host);
}

bool is_same_origin(std::string_view origin, std::string_view host) {
  const auto outer = split_origin(origin);
  const auto theirs = outer ? split_host(outer->host) : std::nullopt;
  const auto ours = split_host(host);
  if (!theirs || !ours || !iequals(theirs->name, ours->name)) return false;
  const auto port = [&](const HostPort& each) { return each.port.empty() ? outer->port : each.port; };
  return port(*theirs) == port(*ours);
}

bool is_background_request_of_other_site(const Request& request) {
  const std::string_view site = request.headers.get("Sec-Fetch-Site");
  if (site.empty() || site == "same-origin" || site == "none") return false;
  const bool link = request.headers.get("Sec-Fetch-Mode") == "navigate" &&
                    request.headers.get("Sec-Fetch-Dest") == "document" &&
                    (request.method == "GET" || request.method == "HEAD");
  return !link;
}

}  // namespace osb::http
