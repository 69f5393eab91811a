#include "cli/config/config_file.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <vector>

#include "base/text.h"
#include "cli/config/config_keys.h"
#include "sys/text_file.h"

namespace osb::cli {
namespace {

std::string quoted_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (code < 0x20 || code == 0x7F) {
      constexpr std::string_view kHex = "0123456789ABCDEF";
      out += "\\u00";
      out += kHex[code >> 4];
      out += kHex[code & 15];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

bool is_number(std::string_view text) {
  // A text that TOML reads as an integer or a float: no blanks, no hex, no leading zeros or dots.
  if (text.empty() || text.find_first_not_of("0123456789+-.eE") != std::string_view::npos) return false;
  const std::string_view digits = text.front() == '-' || text.front() == '+' ? text.substr(1) : text;
  if (digits.empty() || digits.front() < '0' || digits.front() > '9' || digits.back() == '.') return false;
  if (digits.size() > 1 && digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9') return false;
  const std::string copy(text);
  char* end = nullptr;
  (void)std::strtod(copy.c_str(), &end);
  const auto dot = copy.find('.');
  const bool dot_ok =
      dot == std::string::npos || (dot + 1 < copy.size() && copy[dot + 1] >= '0' && copy[dot + 1] <= '9');
  return *end == '\0' && dot_ok;
}

std::string toml_value(std::string_view field, std::string_view value) {
  // These are always text: a key may have digits only, and a time-out may be "600".
  for (const std::string_view text : {"api_key", "domain", "protocol", "profile", "image", "timeout"}) {
    if (field == text) return quoted_string(value);
  }
  if (std::string word = lower(value); word == "true" || word == "false") return word;
  return is_number(value) ? std::string(value) : quoted_string(value);
}

// The name in "[name]", "" when the line is no table header.
std::string_view table_name(std::string_view line) {
  line = trimmed(line.substr(0, line.find('#')));
  if (line.size() < 3 || line.front() != '[' || line.back() != ']' || line[1] == '[') return {};
  return trimmed(line.substr(1, line.size() - 2));
}

bool sets(std::string_view line, std::string_view field) {
  const auto equals = line.find('=');
  return equals != std::string_view::npos && trimmed(line.substr(0, equals)) == field;
}

// "# field = .." as the template has it.
bool would_set(std::string_view line, std::string_view field) {
  line = trimmed(line);
  if (!line.starts_with('#')) return false;
  return sets(line.substr(1), field);
}

// The comment behind a value, with the blanks before it; the value may be a string that holds '#'.
std::string_view comment_behind(std::string_view line) {
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (quote != 0) {
      if (quote == '"' && line[i] == '\\') {
        ++i;
      } else if (line[i] == quote) {
        quote = 0;
      }
    } else if (line[i] == '"' || line[i] == '\'') {
      quote = line[i];
    } else if (line[i] == '#') {
      while (i > 0 && (line[i - 1] == ' ' || line[i - 1] == '\t')) --i;
      return line.substr(i);
    }
  }
  return {};
}

}  // namespace

std::string_view config_template() {
  return R"(# Configuration of osb, the OpenSandbox command line.
# First hit wins: command line option, environment variable, profile, this file, built-in default.

[connection]
# api_key = "your-api-key"
# domain = "localhost:8080"
# protocol = "http"
# request_timeout = 30
# use_server_proxy = false
# profile = "staging"  # used where neither --profile nor OPEN_SANDBOX_PROFILE names one

[output]
# color = true

[defaults]
# image = "python:3.12"
# timeout = "10m"  # or "none": the sandbox lives until it is killed

# A profile holds any of the keys above; choose it with --profile, OPEN_SANDBOX_PROFILE or connection.profile.
# [profiles.staging]
# domain = "https://staging.example.com"
# api_key = "another-key"
)";
}

Expected<std::string> set_in_config(std::string_view text, std::string_view key, std::string_view value) {
  const auto dot = key.rfind('.');
  const std::string_view table = key.substr(0, dot == std::string_view::npos ? 0 : dot);
  const std::string_view field = dot == std::string_view::npos ? std::string_view() : key.substr(dot + 1);
  const bool profile = table.starts_with("profiles.");
  if (!is_bare_key(field) || !is_bare_key(profile ? table.substr(9) : table)) {
    return invalid("Key must be in 'section.field' format (e.g. connection.domain).");
  }
  const std::string line = std::string(field) + " = " + toml_value(field, value);

  std::vector<std::string> lines;
  sys::for_each_line(text, [&](std::string_view one) { lines.emplace_back(one); });
  std::optional<std::size_t> header, exact, commented, last;
  std::string_view current;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (const std::string_view name = table_name(lines[i]); !name.empty()) {
      current = name;
      if (current == table && !header) header = last = i;
      continue;
    }
    if (current != table) continue;
    const bool set = !trimmed(lines[i]).starts_with('#') && sets(lines[i], field);
    if (set && !exact) exact = i;
    if (!set && !commented && would_set(lines[i], field)) commented = i;
    if (!trimmed(lines[i]).starts_with('#') && !trimmed(lines[i]).empty()) last = i;
  }
  if (exact) {
    lines[*exact] = line + std::string(comment_behind(lines[*exact]));
  } else if (commented) {
    const std::string_view old = lines[*commented];
    lines[*commented] = line + std::string(comment_behind(old.substr(old.find('=') + 1)));
  } else if (header) {
    lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(*last) + 1, line);
  } else {
    if (!lines.empty() && !trimmed(lines.back()).empty()) lines.emplace_back();
    lines.push_back("[" + std::string(table) + "]");
    lines.push_back(line);
  }
  std::string out;
  for (const std::string& one : lines) out += one + "\n";
  return out;
}

std::string unset_in_config(std::string_view text, std::string_view table, std::string_view field) {
  std::string out;
  std::string current;
  sys::for_each_line(text, [&](std::string_view line) {
    if (const std::string_view name = table_name(line); !name.empty()) current = name;
    const bool set = current == table && !trimmed(line).starts_with('#') && sets(line, field);
    if (!set) out.append(line).append("\n");
  });
  return out;
}

std::string remove_table(std::string_view text, std::string_view table) {
  std::vector<std::string_view> lines;
  std::string_view current;
  sys::for_each_line(text, [&](std::string_view line) {
    if (const std::string_view name = table_name(line); !name.empty()) current = name;
    const std::string_view content = trimmed(line);
    if (current == table && !content.empty() && !content.starts_with('#')) {
      // The blank line before the table goes with its header.
      if (!table_name(line).empty() && !lines.empty() && trimmed(lines.back()).empty()) lines.pop_back();
      return;
    }
    lines.push_back(line);
  });
  std::string out;
  for (const std::string_view line : lines) out.append(line).append("\n");
  return out;
}

}  // namespace osb::cli
