#include "policy/target.h"

#include <algorithm>

#include "policy/text.h"

namespace osb::policy {
namespace {

constexpr std::size_t kLongestName = 253;
constexpr std::size_t kLongestLabel = 63;

Failure refuse(std::string why) { return fail(Code::InvalidRequest, std::move(why)); }

bool is_name_character(char c) { return (c >= 'a' && c <= 'z') || is_digit(c) || c == '-' || c == '_'; }

Result<void> check_label(std::string_view label) {
  if (label.empty()) return refuse("a part between two dots is empty");
  if (label.size() > kLongestLabel) return refuse("a part between two dots has more than 63 characters");
  for (const char c : label) {
    if (c == '*') return refuse("'*' is only allowed as the first part, as in *.example.com");
    if (static_cast<unsigned char>(c) >= 0x80) return refuse("write names in other scripts as xn--...");
    if (!is_name_character(c)) return refuse("only letters, digits, '-', '_' and '.' can be in a host name");
  }
  return {};
}

}  // namespace

Result<std::string> parse_host_name(std::string_view text) {
  if (text.ends_with('.')) text.remove_suffix(1);
  if (text.empty()) return refuse("the name is empty");
  if (text.size() > kLongestName) return refuse("the name has more than 253 characters");
  std::string name = lower(text);
  std::string_view rest = name;
  for (;;) {
    const auto dot = rest.find('.');
    const std::string_view label = rest.substr(0, dot);
    if (auto ok = check_label(label); !ok) return Failure(ok.error());
    if (dot == std::string_view::npos) {
      if (std::ranges::all_of(label, is_digit))
        return refuse("the last part is a number: neither a name nor an address");
      return name;
    }
    rest.remove_prefix(dot + 1);
  }
}

Result<Target> parse_target(std::string_view text) {
  if (const auto address = parse_ip_address(text)) return IpPrefix(*address, address->bits());
  if (text.find('%') != std::string_view::npos) return refuse("an address with a zone cannot be a target");
  if (text.find('/') != std::string_view::npos) {
    if (const auto prefix = parse_ip_prefix(text)) return *prefix;
    return refuse("neither a network such as 10.0.0.0/8 nor a host name");
  }
  if (text.find(':') != std::string_view::npos)
    return refuse("neither an IPv6 address nor a host name; ports go into \"ports\"");
  const bool below = text.starts_with("*.");
  auto name = parse_host_name(below ? text.substr(2) : text);
  if (!name) return Failure(name.error());
  return NameTarget{.name = std::move(*name), .below = below};
}

}  // namespace osb::policy
