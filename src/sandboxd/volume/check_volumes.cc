#include "sandboxd/volume/check_volumes.h"

#include <algorithm>
#include <climits>
#include <set>

#include <fmt/format.h>

namespace osb::sandboxd {

namespace {

Failure invalid(const char* reason, std::string message) {
  Error error(Code::InvalidRequest, std::move(message));
  error.reason = reason;
  return Failure(std::move(error));
}

// Calls fn(component) for each part between slashes, empty ones too.
template <typename F>
bool all_components(std::string_view path, F fn) {
  for (;;) {
    const std::size_t slash = path.find('/');
    if (!fn(path.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

bool is_printable_path(std::string_view path) { return path.find('\0') == path.npos && path.size() < PATH_MAX; }

// Absolute, without empty, "." or ".." components. "/" is.
bool is_normal(std::string_view path) {
  if (!path.starts_with('/') || !is_printable_path(path)) return false;
  if (path == "/") return true;
  return all_components(path.substr(1), [](std::string_view c) { return !c.empty() && c != "." && c != ".."; });
}

Result<void> check_target(const std::string& target) {
  const auto wrong = [&](const char* why) {
    return invalid("VOLUME::INVALID_MOUNT_PATH", fmt::format("mount path {}: {}", target, why));
  };
  if (!is_normal(target)) return wrong("must be absolute, without //, ., .. or a trailing /");
  if (target == "/") return wrong("is the root itself");
  for (const char* own : {"/proc", "/sys", "/dev"}) {
    if (is_at_or_below(target, own)) return wrong("/proc, /sys and /dev are the sandbox's own");
  }
  return {};
}

bool is_name_character(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

Result<void> check_sub_path(const Volume& spec) {
  if (spec.sub_path.empty()) return {};
  const auto wrong = [&](const char* why) {
    return invalid("VOLUME::INVALID_SUB_PATH", fmt::format("sub-path {}: {}", spec.sub_path, why));
  };
  if (spec.kind == VolumeKind::Tmpfs) return wrong("a tmpfs has none");
  if (spec.sub_path.starts_with('/')) return wrong("must be relative");
  if (!is_printable_path(spec.sub_path)) return wrong("too long, or with a NUL byte");
  if (!all_components(spec.sub_path, [](std::string_view c) { return c != ".."; })) return wrong("must not contain ..");
  return {};
}

}  // namespace

bool is_at_or_below(std::string_view path, std::string_view prefix) {
  if (prefix == "/") return path.starts_with('/');
  return path.starts_with(prefix) && (path.size() == prefix.size() || path[prefix.size()] == '/');
}

Result<void> check_volume_name(std::string_view name) {
  const bool good = !name.empty() && name.size() <= 253 && is_name_character(name.front()) &&
                    is_name_character(name.back()) &&
                    std::ranges::all_of(name, [](char c) { return is_name_character(c) || c == '-'; });
  if (good) return {};
  return invalid("VOLUME::INVALID_PVC_NAME",
                 fmt::format("volume name '{}': lower case letters, digits and inner hyphens, at most 253", name));
}

Result<void> check_volumes(std::span<const Volume> specs) {
  std::set<std::string_view> targets;
  for (const Volume& spec : specs) {
    if (auto checked = check_target(spec.target); !checked) return checked;
    if (!targets.insert(spec.target).second) {
      return invalid("VOLUME::INVALID_MOUNT_PATH", fmt::format("mount path {}: given twice", spec.target));
    }
    if (spec.kind == VolumeKind::Host && !is_normal(spec.source)) {
      return invalid("VOLUME::INVALID_HOST_PATH",
                     fmt::format("host path {}: must be absolute, without //, ., .. or a trailing /", spec.source));
    }
    if (spec.kind == VolumeKind::Named) {
      if (auto checked = check_volume_name(spec.source); !checked) return checked;
    }
    if (auto checked = check_sub_path(spec); !checked) return checked;
  }
  return {};
}

}  // namespace osb::sandboxd
