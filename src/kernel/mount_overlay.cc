#include "kernel/mount_overlay.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <linux/magic.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include <fmt/format.h>

#include "kernel/mount.h"
#include "sys/clone.h"

namespace osb::kernel {
namespace {

using sys::raw;

constexpr std::size_t kMostLayers = 500;  // OVL_MAX_STACK

constexpr const char* kCommon = "redirect_dir=nofollow,metacopy=off,index=off,lowerdir=";

bool on_btrfs(const std::string& directory) {
  struct statfs found{};
  return ::statfs(directory.c_str(), &found) == 0 && found.f_type == BTRFS_SUPER_MAGIC;
}

}  // namespace

// An overlay without an upper directory wants two lower ones: an empty directory is the last.
void Overlay::stack_lower(int number, const std::string& names) {
  lower_place_ = fmt::format("/l{}", number);
  empty_place_ = fmt::format("/e{}", number);
  lower_options_ = kCommon + names + ":" + empty_place_;
}

Result<void> Overlay::add(const std::string& directory, int userns, int number) {
  auto mount = clone_mount(AT_FDCWD, directory);
  if (!mount) return Failure(mount.error());
  if (auto mapped = map_mount_ids(mount->get(), userns, directory); !mapped) return mapped;
  Layer& layer = layers_.emplace_back();
  layer.mount = mount->get();
  *fmt::format_to_n(layer.place, sizeof layer.place - 1, "/{}", layers_.size() - 1 + number * (kMostLayers + 1)).out =
      0;
  owners_.push_back(std::move(*mount));
  return {};
}

Result<Overlay> Overlay::prepare(const OverlayPlan& plan, int number) {
  if (plan.lower.empty() || plan.lower.size() > kMostLayers) {
    return fail(Code::InvalidRequest,
                fmt::format("overlay at {}: {} layers; it takes 1 to {}", plan.upper, plan.lower.size(), kMostLayers));
  }
  const std::filesystem::path upper(plan.upper), work(plan.work);
  std::filesystem::path parent;
  for (auto u = upper.begin(), w = work.begin(); u != upper.end() && w != work.end() && *u == *w; ++u, ++w) {
    parent /= *u;
  }
  const std::string upper_name = upper.lexically_relative(parent).string();
  const std::string work_name = work.lexically_relative(parent).string();
  if (parent.empty() || upper_name == "." || work_name == "." ||
      (upper_name + work_name).find_first_of(",\\") != std::string::npos) {
    return fail(Code::InvalidRequest,
                fmt::format("overlay: {} and {} must be two directories in one", plan.upper, plan.work));
  }

  Overlay out;
  out.layers_.reserve(plan.lower.size() + 1);
  out.owners_.reserve(plan.lower.size() + 1);
  bool stacked = on_btrfs(parent);
  if (stacked) stacked = std::ranges::any_of(plan.lower, on_btrfs);
  std::string names;
  for (const std::string& directory : plan.lower) {
    if (auto added = out.add(directory, plan.userns, number); !added) {
      return with_context("overlay at " + plan.upper, added.error());
    }
    if (out.layers_.size() > 1) names += ':';
    names += out.layers_.back().place;
  }
  if (stacked) out.stack_lower(number, names);
  if (auto added = out.add(parent.string(), plan.userns, number); !added) {
    return with_context("overlay at " + plan.upper, added.error());
  }
  out.options_ = fmt::format("volatile,{}{},upperdir={}/{},workdir={}/{}", kCommon, stacked ? out.lower_place_ : names,
                             out.layers_.back().place, upper_name, out.layers_.back().place, work_name);
  return out;
}

OSB_IN_CHILD int Overlay::mount_in_child(const char* target) const noexcept {
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    // The places are on a tmpfs that all children share: most exist.
    long moved = raw(SYS_move_mount, layer.mount, "", AT_FDCWD, layer.place, MOVE_MOUNT_F_EMPTY_PATH);
    if (moved < 0 && errno == ENOENT && (raw(SYS_mkdirat, AT_FDCWD, layer.place, 0755) == 0 || errno == EEXIST)) {
      moved = raw(SYS_move_mount, layer.mount, "", AT_FDCWD, layer.place, MOVE_MOUNT_F_EMPTY_PATH);
    }
    if (moved < 0) return -1;
  }
  if (!lower_options_.empty()) {
    for (const char* place : {empty_place_.c_str(), lower_place_.c_str()}) {
      if (raw(SYS_mkdirat, AT_FDCWD, place, 0755) < 0 && errno != EEXIST) return -1;
    }
    if (raw(SYS_mount, "overlay", lower_place_.c_str(), "overlay", MS_NODEV | MS_RDONLY, lower_options_.c_str()) < 0) {
      return -1;
    }
  }
  return static_cast<int>(raw(SYS_mount, "overlay", target, "overlay", MS_NODEV, options_.c_str()));
}

}  // namespace osb::kernel
