#include "tls/host_name.h"

#include <algorithm>

#include "base/text.h"

namespace osb::tls {
namespace {

constexpr std::size_t kLongestName = 253;
constexpr std::size_t kLongestLabel = 63;

bool is_label_character(char c) { return (c >= 'a' && c <= 'z') || is_digit(c) || c == '-' || c == '_'; }

}  // namespace

std::optional<std::string> parse_dns_name(std::string_view text) {
  if (text.empty() || text.size() > kLongestName) return std::nullopt;
  std::string name = lower(text);
  for (std::string_view rest = name;;) {
    const std::size_t dot = rest.find('.');
    const std::string_view label = rest.substr(0, dot);
    if (label.empty() || label.size() > kLongestLabel || !std::ranges::all_of(label, is_label_character)) {
      return std::nullopt;
    }
    if (dot == std::string_view::npos) {
      if (std::ranges::all_of(label, is_digit)) return std::nullopt;  // an IPv4 address, or part of one
      return name;
    }
    rest.remove_prefix(dot + 1);
  }
}

}  // namespace osb::tls
