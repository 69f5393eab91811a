#include "vault/forms.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace osb::vault {
namespace {

constexpr std::string_view kRedacted = "[REDACTED]";
constexpr std::string_view kUpper = "0123456789ABCDEF", kLower = "0123456789abcdef";
constexpr std::string_view kBase64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
// A shorter part of a base64 text would occur by chance.
constexpr std::size_t kShortestBase64 = 6;

SecretText percent(std::string_view value, std::string_view digits, bool plus) {
  SecretText out;
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (is_unreserved(c)) {
      out.append(c);
    } else if (plus && c == ' ') {
      out.append('+');
    } else {
      const std::array<char, 3> escape = {'%', digits[byte >> 4], digits[byte & 15]};
      out.append({escape.data(), escape.size()});
    }
  }
  return out;
}

// The characters that base64 gives for `value` whatever stands around it, if `before` bytes (0 to 2) of a group of
// three come before it. Characters that hold bits of neighbours are left out.
SecretText base64_inside(std::string_view value, std::size_t before, std::string_view last_two) {
  SecretText out;
  const std::size_t first_bit = before * 8, end_bit = first_bit + value.size() * 8;
  const auto bit = [&](std::size_t at) {
    const auto byte = static_cast<unsigned char>(value[(at - first_bit) / 8]);
    return static_cast<unsigned>(byte >> (7 - at % 8) & 1);
  };
  for (std::size_t at = (first_bit + 5) / 6 * 6; at + 6 <= end_bit; at += 6) {
    unsigned number = 0;
    for (std::size_t i = 0; i < 6; ++i) number = number << 1 | bit(at + i);
    out.append(number < kBase64.size() ? kBase64[number] : last_two[number - kBase64.size()]);
  }
  return out;
}

void add(SecretText pattern, std::vector<Replacement>& out) {
  const bool known = pattern.empty() || std::ranges::any_of(out, [&](const Replacement& each) {
                       return each.pattern.view() == pattern.view();
                     });
  if (!known) out.push_back({std::move(pattern), SecretText(kRedacted)});
}

}  // namespace

SecretText percent_encoded(std::string_view value) { return percent(value, kUpper, false); }
SecretText form_encoded(std::string_view value) { return percent(value, kUpper, true); }

SecretText json_escaped(std::string_view value) {
  SecretText out;
  for (const char c : value) {
    if (c == '"' || c == '\\') out.append('\\');
    out.append(c);
  }
  return out;
}

void add_redactions(std::string_view secret, std::vector<Replacement>& out) {
  add(SecretText(secret), out);
  for (const std::string_view digits : {kUpper, kLower}) {
    add(percent(secret, digits, false), out);
    add(percent(secret, digits, true), out);
  }
  add(json_escaped(secret), out);
  for (std::size_t before = 0; before < 3; ++before) {
    for (const std::string_view last_two : {"+/", "-_"}) {
      SecretText inside = base64_inside(secret, before, last_two);
      if (inside.size() >= kShortestBase64) add(std::move(inside), out);
    }
  }
}

}  // namespace osb::vault
