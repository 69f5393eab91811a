#include "execd/isolated/isolation_config.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/parse_number.h"
#include "execd/path/path.h"
#include "execd/run/small_file.h"

namespace osb::execd {
namespace {

constexpr std::size_t kMostText = 1 << 20;
constexpr std::string_view kPublishedRoot = "/var/lib/execd/isolation";

using Value = std::variant<std::int64_t, bool, std::string, std::vector<std::string>>;

// The TOML that such a file needs: sections, and keys with a number, true, false, a string of one line or a list of
// such strings. Other TOML is an error. The whole language would make execd a sixth larger.
class TomlLines {
 public:
  explicit TomlLines(std::string_view text) : left_(text) {}

  struct Entry {
    std::string section, key;  // without a section: ""
    Value value;
  };
  // The next key with its value; nothing at the end.
  Result<std::optional<Entry>> next() {
    for (skip_blank_lines(); take('['); skip_blank_lines()) {
      section_ = take_word();
      if (section_.empty() || !take(']')) return wrong("expected [section]");
      if (!take_line_end()) return wrong("expected the end of the line");
    }
    if (left_.empty()) return std::nullopt;
    Entry entry{section_, take_word(), {}};
    skip_blanks();
    if (entry.key.empty() || !take('=')) return wrong("expected key = value");
    skip_blanks();
    auto value = take_value();
    if (!value) return Failure(value.error());
    if (!take_line_end()) return wrong("expected the end of the line");
    entry.value = std::move(*value);
    return std::optional(std::move(entry));
  }

 private:
  Failure wrong(std::string_view why) const {
    return fail(Code::InvalidRequest, "line " + std::to_string(line_) + ": " + std::string(why));
  }

  bool take(char wanted) {
    if (!left_.starts_with(wanted)) return false;
    line_ += wanted == '\n';
    left_.remove_prefix(1);
    return true;
  }

  std::string take_while(std::string_view allowed) {
    const std::size_t end = std::min(left_.find_first_not_of(allowed), left_.size());
    std::string out(left_.substr(0, end));
    left_.remove_prefix(end);
    return out;
  }

  std::string take_word() { return take_while("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"); }

  void skip_blanks() { take_while(" \t\r"); }

  bool take_line_end() {
    skip_blanks();
    if (left_.starts_with('#')) left_.remove_prefix(std::min(left_.find('\n'), left_.size()));
    return left_.empty() || take('\n');
  }

  void skip_blank_lines() {
    while (!left_.empty() && take_line_end()) {
    }
  }

  Result<Value> take_value() {
    if (left_.starts_with('"') || left_.starts_with('\'')) return take_string();
    if (take('[')) return take_list();
    const std::string word = take_while("abcdefghijklmnopqrstuvwxyz0123456789_+-");
    if (word == "true" || word == "false") return Value(word == "true");
    std::string digits = word;
    std::erase(digits, '_');
    const auto number = parse_number<std::int64_t>(digits);
    if (!number) return wrong("expected a number, true, false, a string or a list of strings");
    return Value(*number);
  }

  Result<std::string> take_string() {
    const char quote = left_.front();
    left_.remove_prefix(1);
    const std::size_t end = left_.find_first_of(std::string{quote, '\\', '\n'});
    if (end == std::string_view::npos || left_[end] != quote) {
      return wrong("expected a string of one line, without a backslash");
    }
    std::string out(left_.substr(0, end));
    left_.remove_prefix(end + 1);
    return out;
  }

  Result<Value> take_list() {
    std::vector<std::string> out;
    for (skip_blank_lines(); !take(']'); skip_blank_lines()) {
      if (!left_.starts_with('"') && !left_.starts_with('\'')) return wrong("expected a list of strings");
      auto text = take_string();
      if (!text) return Failure(text.error());
      out.push_back(std::move(*text));
      skip_blank_lines();
      if (!take(',') && !left_.starts_with(']')) return wrong("expected , or ]");
    }
    return Value(std::move(out));
  }

  std::string_view left_;
  std::string section_;
  int line_ = 1;
};

// Why a key cannot be had; "" if it has been taken over.
std::string_view apply_bytes(const Value& value, std::uint64_t& out) {
  const auto* bytes = std::get_if<std::int64_t>(&value);
  if (bytes == nullptr || *bytes <= 0) return "expected a number of bytes above 0";
  out = static_cast<std::uint64_t>(*bytes);
  return "";
}

std::string_view apply_paths(const Value& value, std::vector<std::string>& out) {
  const auto* paths = std::get_if<std::vector<std::string>>(&value);
  if (paths == nullptr) return "expected a list of paths";
  out.clear();
  for (const std::string& given : *paths) {
    const std::string path = clean_path(given);
    if (!given.starts_with('/') || path == "/") return "expected absolute paths other than /";
    out.push_back(path);
  }
  return "";
}

// Changes of sessions are in memory, so that no other process of the sandbox finds them.
std::string_view check_root(const Value& value) {
  const auto* path = std::get_if<std::string>(&value);
  const bool published = path != nullptr && (path->empty() || *path == kPublishedRoot);
  return published ? "" : "changes of sessions are kept in memory, not in a directory";
}

std::string_view apply(const TomlLines::Entry& entry, IsolationOptions& options) {
  if (entry.section == "seccomp") {
    return "sessions have execd's own list of refused system calls, which cannot be replaced";
  }
  if (entry.section == "hardening" || entry.section == "landlock" || entry.section == "ebpf") {
    const bool off = entry.key != "enabled" || entry.value == Value(false);
    return off ? "" : "execd does not have this; isolated sessions have their own walls without it";
  }
  if (!entry.section.empty()) return "there is no such section";
  if (entry.key == "upper_max_bytes") return apply_bytes(entry.value, options.upper_max_bytes);
  if (entry.key == "diff_max_bytes") return apply_bytes(entry.value, options.diff_max_bytes);
  if (entry.key == "allowed_writable") return apply_paths(entry.value, options.allowed_writable);
  if (entry.key == "upper_root") return check_root(entry.value);
  return "there is no such key";
}

}  // namespace

Result<void> read_isolation_config(std::string_view text, const std::string& source, IsolationOptions& options) {
  TomlLines lines(text);
  for (;;) {
    const auto entry = lines.next();
    if (!entry) return with_context(source, entry.error());
    if (!*entry) return {};
    const std::string_view fault = apply(**entry, options);
    if (fault.empty()) continue;
    const std::string section = (*entry)->section.empty() ? "" : "[" + (*entry)->section + "] ";
    return fail(Code::InvalidRequest, source + ": " + section + (*entry)->key + ": " + std::string(fault));
  }
}

Result<void> load_isolation_config(const std::string& path, IsolationOptions& options) {
  const auto text = read_small_file(path, kMostText);
  if (!text) return fail(Code::NotFound, path + ": not a file that can be read");
  return read_isolation_config(*text, path, options);
}

}  // namespace osb::execd
