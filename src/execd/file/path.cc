#include "execd/file/path.h"

#include <linux/limits.h>
#include <vector>

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

Result<void> append_variable(std::string& out, std::string_view name, const Environment& env) {
  const auto found = env.find(name);
  if (found == env.end()) {
    return fail(Code::InvalidRequest, "path: variable " + std::string(name) + " is not defined");
  }
  out += found->second;
  return {};
}

Result<std::string> expand_variables(std::string_view text, const Environment& env) {
  std::string out;
  while (!text.empty()) {
    const std::size_t dollar = text.find('$');
    out += text.substr(0, dollar);
    if (dollar == std::string_view::npos) break;
    text.remove_prefix(dollar + 1);
    const bool braced = text.starts_with('{');
    const std::size_t length = name_length(braced ? text.substr(1) : text);
    if (length == 0 || (braced && text.substr(1 + length, 1) != "}")) {
      out += '$';
      continue;
    }
    if (auto ok = append_variable(out, text.substr(braced ? 1 : 0, length), env); !ok) return Failure(ok.error());
    text.remove_prefix(length + (braced ? 2 : 0));
  }
  return out;
}

}  // namespace

std::string clean_path(std::string_view path) {
  std::vector<std::string_view> parts;
  while (!path.empty()) {
    const std::size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    path.remove_prefix(slash == std::string_view::npos ? path.size() : slash + 1);
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      if (!parts.empty()) parts.pop_back();
    } else {
      parts.push_back(part);
    }
  }
  std::string out;
  for (const std::string_view part : parts) out.append("/").append(part);
  return out.empty() ? "/" : out;
}

Result<std::string> expand_path(std::string_view path, const Environment& env, std::string_view cwd) {
  if (path.empty()) return fail(Code::InvalidRequest, "path: must not be empty");
  std::string full;
  if (path == "~" || path.starts_with("~/")) {
    if (auto ok = append_variable(full, "HOME", env); !ok) return Failure(ok.error());
    path.remove_prefix(1);
  }
  auto rest = expand_variables(path, env);
  if (!rest) return Failure(rest.error());
  full += *rest;
  if (!full.starts_with('/')) full = std::string(cwd) + "/" + full;
  if (full.find('\0') != std::string::npos) return fail(Code::InvalidRequest, "path: contains a NUL byte");
  std::string clean = clean_path(full);
  if (clean.size() >= PATH_MAX) {
    return fail(Code::InvalidRequest, "path: " + std::to_string(clean.size()) + " bytes are too long");
  }
  return clean;
}

std::string_view parent_of(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == 0 ? path.substr(0, 1) : path.substr(0, slash);
}

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

}  // namespace osb::execd
