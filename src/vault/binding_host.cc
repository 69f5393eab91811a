#include <algorithm>

#include "base/ip_address.h"
#include "base/json_escape.h"
#include "policy/text.h"
#include "vault/binding.h"

namespace osb::vault {
namespace {

constexpr std::size_t kLongestHost = 253;
constexpr std::size_t kLongestLabel = 63;

bool is_letter_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

bool is_label(std::string_view label) {
  if (label.empty() || label.size() > kLongestLabel) return false;
  if (!is_letter_or_digit(label.front()) || !is_letter_or_digit(label.back())) return false;
  return std::ranges::all_of(label, [](char c) { return is_letter_or_digit(c) || c == '-'; });
}

bool is_full_name(std::string_view name) {
  if (name.size() > kLongestHost || !name.contains('.')) return false;
  while (true) {
    const auto dot = name.find('.');
    if (!is_label(name.substr(0, dot))) return false;
    if (dot == std::string_view::npos) return true;
    name.remove_prefix(dot + 1);
  }
}

}  // namespace

Result<std::string> parse_binding_host(std::string_view text) {
  const auto bad = [&](std::string_view why) {
    return fail(Code::InvalidRequest, in_quotes(policy::trimmed(text)) + " " + std::string(why));
  };
  std::string host = policy::lower(policy::trimmed(text));
  if (host.ends_with('.')) host.pop_back();
  if (host.empty()) return fail(Code::InvalidRequest, "a host is blank");
  if (host.contains("://") || host.contains('/')) return bad("is no host name: leave scheme and path out");
  if (parse_ip_address(host)) return bad("is an address: a binding needs a host name");
  if (host.contains(':')) return bad("is no host name: leave the port out");
  std::string_view name = host;
  if (name.starts_with("*.")) name.remove_prefix(2);
  if (name.contains('*')) return bad("has a wildcard that is not a leading \"*.\"");
  if (!is_full_name(name)) return bad("is no full host name such as api.example.com");
  return host;
}

}  // namespace osb::vault
