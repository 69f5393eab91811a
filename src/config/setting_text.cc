#include "config/setting_text.h"

namespace osb::config {
namespace {

constexpr std::size_t kWidth = 118;

// Lines that begin with "# ", without Markdown's marks of code.
std::string comment(std::string_view about) {
  std::string out, line;
  while (!about.empty()) {
    const std::size_t end = std::min(about.find(' '), about.size());
    std::string word(about.substr(0, end));
    std::erase(word, '`');
    about.remove_prefix(std::min(about.size(), end + 1));
    if (line.size() + 1 + word.size() > kWidth) {
      out += "#" + line + "\n";
      line.clear();
    }
    line += " " + word;
  }
  return line.empty() ? out : out + "#" + line + "\n";
}

// A cell of a Markdown table.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

std::string example_file(std::string_view head, std::span<const SettingText> settings) {
  std::string out = comment(head), section;
  for (const SettingText& each : settings) {
    if (each.old) continue;
    const std::string mark = each.commented ? "# " : "";
    if (each.section != section) out += "\n" + mark + "[" + each.section + "]\n";
    section = each.section;
    out += comment(each.about);
    out += mark + each.key + " = " + (each.written.empty() ? each.fallback : each.written) + "\n";
  }
  return out;
}

std::string reference_page(std::string_view head, std::span<const SettingText> settings, bool reloads) {
  std::string out(head), section;
  for (const SettingText& each : settings) {
    if (each.section != section) {
      out += "\n## `[" + each.section + "]`\n\n| key | default |" + (reloads ? " reload |" : "") +
             " meaning |\n| --- | --- |" + (reloads ? " --- |" : "") + " --- |\n";
    }
    section = each.section;
    const bool unset = each.fallback.empty() || each.fallback == "\"\"" || each.fallback == "[]";
    out += "| `" + each.key + "` | " + (unset ? "none" : "`" + cell(each.fallback) + "`") + " |";
    if (reloads) out += each.live ? " yes |" : " |";
    out += " " + cell(each.about) + " |\n";
  }
  return out;
}

std::string toml_string(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      out += "\\u00";
      out += {kHex[byte >> 4], kHex[byte & 15]};
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

}  // namespace osb::config
