#include "execd/path/path.h"

#include <linux/limits.h>
#include <vector>

#include "execd/path/variables.h"

namespace osb::execd {
namespace {

Failure not_defined(std::string_view name) {
  return fail(Code::InvalidRequest, "path: variable " + std::string(name) + " is not defined");
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
    const auto home = env.find("HOME");
    if (home == env.end()) return not_defined("HOME");
    full = home->second;
    path.remove_prefix(1);
  }
  const Expanded rest = expand_variables(path, env);
  if (!rest.missing.empty()) return not_defined(rest.missing);
  full += rest.text;
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
