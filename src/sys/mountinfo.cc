#include "sys/mountinfo.h"

#include "sys/text_file.h"

namespace osb::sys {
namespace {

// Paths write space, tab, newline and backslash as \ooo.
std::string unescape(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto octal = [&](std::size_t at) { return text[at] >= '0' && text[at] <= '7'; };
    if (text[i] == '\\' && i + 3 < text.size() && octal(i + 1) && octal(i + 2) && octal(i + 3)) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  for (;;) {
    const std::size_t end = text.find(separator);
    out.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + 1);
  }
}

std::vector<MountEntry> parse_mountinfo(std::string_view text) {
  std::vector<MountEntry> out;
  // "40 31 0:37 ROOT POINT options [optional fields] - TYPE source SUPER-OPTIONS"
  for_each_line(text, [&](std::string_view line) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string_view::npos) return;
    const auto before = split(line.substr(0, dash), ' ');
    const auto after = split(line.substr(dash + 3), ' ');
    if (before.size() < 6 || after.size() < 3) return;
    out.push_back({unescape(before[3]), unescape(before[4]), std::string(after[0]), std::string(after[2])});
  });
  return out;
}

}  // namespace osb::sys
