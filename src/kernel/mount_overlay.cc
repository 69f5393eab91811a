#include <array>
#include <fcntl.h>
#include <filesystem>
#include <linux/sched.h>
#include <sched.h>
#include <sys/syscall.h>
#include <vector>

#include <fmt/format.h>

#include "kernel/child.h"
#include "kernel/mount.h"
#include "kernel/namespace.h"
#include "sys/syscall.h"

namespace osb::kernel {
namespace {

constexpr std::size_t kMostLayers = 500;  // OVL_MAX_STACK

// What every overlay of ours is mounted with, besides its layers.
constexpr std::array<std::pair<const char*, const char*>, 3> kOptions = {
    {{"redirect_dir", "nofollow"}, {"metacopy", "off"}, {"index", "off"}}};

// The directory that holds both upper and work, and their names in it.
struct Writable {
  UniqueFd parent;  // detached, mapped
  std::string upper, work;
};

Result<UniqueFd> mapped_clone(const std::string& directory, int userns) {
  auto mount = clone_mount(AT_FDCWD, directory);
  if (!mount) return mount;
  if (auto mapped = map_mount_ids(mount->get(), userns, directory); !mapped) return Failure(mapped.error());
  return mount;
}

Result<Writable> open_writable(const OverlayPlan& plan) {
  const std::filesystem::path upper(plan.upper), work(plan.work);
  std::filesystem::path parent;
  for (auto u = upper.begin(), w = work.begin(); u != upper.end() && w != work.end() && *u == *w; ++u, ++w) {
    parent /= *u;
  }
  Writable out;
  out.upper = upper.lexically_relative(parent).string();
  out.work = work.lexically_relative(parent).string();
  if (parent.empty() || out.upper == "." || out.work == ".") {
    return fail(Code::InvalidRequest,
                fmt::format("overlay: {} and {} must be two directories in one", plan.upper, plan.work));
  }
  auto mount = mapped_clone(parent.string(), plan.userns);
  if (!mount) return Failure(mount.error());
  out.parent = std::move(*mount);
  return out;
}

Result<UniqueFd> overlay_by_descriptor(const OverlayPlan& plan) {
  auto context = FsContext::open("overlay");
  if (!context) return Failure(context.error());
  std::vector<UniqueFd> layers;  // open until the overlay exists: a detached mount goes with its descriptor
  for (const std::string& lower : plan.lower) {
    auto layer = mapped_clone(lower, plan.userns);
    if (!layer) return Failure(layer.error());
    if (auto set = context->set_fd("lowerdir+", layer->get()); !set) return with_context(lower, set.error());
    layers.push_back(std::move(*layer));
  }
  auto writable = open_writable(plan);
  if (!writable) return Failure(writable.error());
  for (const auto& [key, name] : {std::pair{"upperdir", writable->upper}, std::pair{"workdir", writable->work}}) {
    auto directory = sys::open_at(writable->parent.get(), name, O_PATH | O_DIRECTORY);
    if (!directory) return Failure(directory.error());
    if (auto set = context->set_fd(key, directory->get()); !set) return with_context(name, set.error());
  }
  for (const auto& [key, value] : kOptions) {
    if (auto set = context->set(key, value); !set) return Failure(set.error());
  }
  if (auto set = context->set_flag("volatile"); !set) return Failure(set.error());
  return context->mount(MOUNT_ATTR_NODEV);
}

// What the child that mounts by path needs and answers.
struct PathTask {
  int namespace_fd;
  const int* mounts;       // the layers, then the parent of upper and work
  const char (*names)[8];  // "0", "1", ..
  std::size_t count;
  const char* options;
  int made = -1;
  int error = 0;
  const char* failed = "the child was killed";
};

[[noreturn]] OSB_IN_CHILD void end_task(PathTask& task, const char* failed) {
  task.error = errno;
  task.failed = failed;
  for (;;) raw(SYS_exit_group, 0);
}

// In a mount namespace that ends with this child, so that nothing attached here stays, and with names so short that the
// options of 500 layers fit in the one page the kernel takes.
OSB_IN_CHILD void mount_by_path(void* argument) {
  PathTask& task = *static_cast<PathTask*>(argument);
  if (raw(SYS_setns, task.namespace_fd, CLONE_NEWNS) < 0) end_task(task, "join the empty mount namespace");
  if (raw(SYS_unshare, CLONE_NEWNS) < 0) end_task(task, "unshare mounts");
  for (std::size_t i = 0; i < task.count; ++i) {
    // The tmpfs is shared by all children: the directory may be there.
    if (raw(SYS_mkdirat, AT_FDCWD, task.names[i], 0755) < 0 && errno != EEXIST) end_task(task, "make a mount point");
    if (raw(SYS_move_mount, task.mounts[i], "", AT_FDCWD, task.names[i], MOVE_MOUNT_F_EMPTY_PATH) < 0) {
      end_task(task, "attach a layer");
    }
  }
  if (raw(SYS_mount, "overlay", "/mnt", "overlay", MS_NODEV, task.options) < 0) end_task(task, "mount");
  const long made = raw(SYS_open_tree, AT_FDCWD, "/mnt", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
  if (made < 0) end_task(task, "clone the mount");
  task.made = static_cast<int>(made);
  end_task(task, nullptr);
}

Result<UniqueFd> overlay_by_path(const OverlayPlan& plan) {
  static const Result<UniqueFd> empty_namespace = make_empty_mount_namespace();
  if (!empty_namespace) return Failure(empty_namespace.error());

  std::vector<UniqueFd> owners;
  std::vector<int> mounts;
  const auto names = std::make_unique<char[][8]>(plan.lower.size() + 1);
  std::string options = "lowerdir=";
  for (std::size_t i = 0; i <= plan.lower.size(); ++i) {
    *fmt::format_to_n(names[i], 7, "{}", i).out = '\0';
    if (i == plan.lower.size()) break;
    auto layer = mapped_clone(plan.lower[i], plan.userns);
    if (!layer) return Failure(layer.error());
    mounts.push_back(layer->get());
    owners.push_back(std::move(*layer));
    options += fmt::format("{}{}", i == 0 ? "" : ":", names[i]);
  }
  auto writable = open_writable(plan);
  if (!writable) return Failure(writable.error());
  mounts.push_back(writable->parent.get());
  const std::size_t last = plan.lower.size();
  options += fmt::format(",upperdir={0}/{1},workdir={0}/{2},volatile", names[last], writable->upper, writable->work);
  for (const auto& [key, value] : kOptions) options += fmt::format(",{}={}", key, value);

  PathTask task{empty_namespace->get(), mounts.data(), names.get(), mounts.size(), options.c_str()};
  auto child = vfork_child(&mount_by_path, &task, {.clone_flags = CLONE_FILES});
  if (!child) return Failure(child.error());
  reap(*child);
  UniqueFd made(task.made);
  if (task.failed != nullptr) return sys::from_errno(fmt::format("overlay by path: {}", task.failed), task.error);
  return made;
}

bool takes_descriptors() {
  auto context = FsContext::open("overlay");
  auto detached = clone_mount(AT_FDCWD, "/");
  return context && detached && context->set_fd("lowerdir+", detached->get());
}

}  // namespace

OverlayWay overlay_way() {
  static const OverlayWay way = takes_descriptors() ? OverlayWay::ByDescriptor : OverlayWay::ByPath;
  return way;
}

Result<UniqueFd> make_overlay(const OverlayPlan& plan) { return make_overlay(plan, overlay_way()); }

Result<UniqueFd> make_overlay(const OverlayPlan& plan, OverlayWay way) {
  if (plan.lower.empty() || plan.lower.size() > kMostLayers) {
    return fail(Code::InvalidRequest,
                fmt::format("overlay: {} layers; it takes 1 to {}", plan.lower.size(), kMostLayers));
  }
  auto made = way == OverlayWay::ByDescriptor ? overlay_by_descriptor(plan) : overlay_by_path(plan);
  if (!made) return with_context("mount overlay at " + plan.upper, made.error());
  return made;
}

}  // namespace osb::kernel
