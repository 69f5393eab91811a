#include "cli/command/shell_words.h"

#include <algorithm>

#include "base/text.h"

namespace osb::cli {

std::string shell_quote(std::string_view word) {
  const auto safe = [](char c) {
    return is_letter_or_digit(c) || std::string_view("@%+=:,./-_").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::ranges::all_of(word, safe)) return std::string(word);
  std::string out = "'";
  for (const char c : word) {
    if (c == '\'') {
      out += "'\"'\"'";
    } else {
      out += c;
    }
  }
  return out + "'";
}

std::string shell_join(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) {
    if (!out.empty()) out += ' ';
    out += shell_quote(word);
  }
  return out;
}

}  // namespace osb::cli
