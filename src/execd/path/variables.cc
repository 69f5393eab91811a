#include "execd/path/variables.h"

namespace osb::execd {
namespace {

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_char(char c) { return is_name_start(c) || (c >= '0' && c <= '9'); }

std::size_t name_length(std::string_view text) {
  if (text.empty() || !is_name_start(text[0])) return 0;
  std::size_t n = 1;
  while (n < text.size() && is_name_char(text[n])) ++n;
  return n;
}

}  // namespace

Expanded expand_variables(std::string_view text, const Environment& env) {
  Expanded out;
  while (!text.empty()) {
    const std::size_t dollar = text.find('$');
    out.text += text.substr(0, dollar);
    if (dollar == std::string_view::npos) break;
    text.remove_prefix(dollar + 1);
    const bool braced = text.starts_with('{');
    const std::size_t length = name_length(braced ? text.substr(1) : text);
    if (length == 0 || (braced && text.substr(1 + length, 1) != "}")) {
      out.text += '$';
      continue;
    }
    const std::string_view name = text.substr(braced ? 1 : 0, length);
    if (const auto found = env.find(name); found != env.end()) {
      out.text += found->second;
    } else if (out.missing.empty()) {
      out.missing = name;
    }
    text.remove_prefix(length + (braced ? 2 : 0));
  }
  return out;
}

}  // namespace osb::execd
