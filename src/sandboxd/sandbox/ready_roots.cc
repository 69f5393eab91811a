#include "sandboxd/sandbox/ready_roots.h"

#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "base/log.h"
#include "sandboxd/launch/stage.h"
#include "sys/syscall.h"

namespace osb::sandboxd {

Result<void> copy_root_mode(const std::string& lower, const std::string& upper) {
  struct stat from{}, to{};
  if (::stat(lower.c_str(), &from) < 0) return sys::from_errno("stat " + lower, errno);
  if (::stat(upper.c_str(), &to) < 0) return sys::from_errno("stat " + upper, errno);
  if ((from.st_uid != to.st_uid || from.st_gid != to.st_gid) && ::chown(upper.c_str(), from.st_uid, from.st_gid) < 0) {
    return sys::from_errno("chown " + upper, errno);
  }
  if (from.st_mode != to.st_mode && ::chmod(upper.c_str(), from.st_mode & 07777) < 0) {
    return sys::from_errno("chmod " + upper, errno);
  }
  return {};
}

Result<RootKind> RootKind::of(const std::vector<std::string>& layers, bool host, NetworkMode network) {
  RootKind out;
  out.host = host;
  out.network = network;
  for (const std::string& path : layers) {
    struct stat st{};
    if (::stat(path.c_str(), &st) < 0) return sys::from_errno("stat " + path, errno);
    out.layers.push_back({path, st.st_dev, st.st_ino, st.st_ctim.tv_sec, st.st_ctim.tv_nsec});
  }
  return out;
}

std::optional<ReadyRoot> ReadyRoots::take(const RootKind& kind) {
  const std::lock_guard lock(mutex_);
  if (!ready_ || ready_->kind != kind) return std::nullopt;
  return std::exchange(ready_, std::nullopt);
}

void ReadyRoots::want(RootKind kind) {
  const std::lock_guard lock(mutex_);
  wanted_ = std::move(kind);
}

bool ReadyRoots::drop() {
  std::optional<ReadyRoot> root;
  bool waited = false;
  {
    std::unique_lock lock(mutex_);
    while (making_) {  // a few milliseconds
      waited = true;
      made_.wait(lock);
    }
    root = std::exchange(ready_, std::nullopt);
  }
  if (!root) return waited;  // what was being made may have failed, and given its slot back
  give_back(std::move(*root));
  return true;
}

void ReadyRoots::give_back(ReadyRoot root) {
  root.stage = Stage();  // closes the last namespaces that use the slot
  directories_.discard(root.directory);
  slots_.give_back(std::move(root.slot), true);
}

Result<ReadyRoot> ReadyRoots::make(RootKind kind) {
  ReadyRoot out;
  out.kind = std::move(kind);
  auto directory = directories_.take();
  if (!directory) return Failure(directory.error());
  out.directory = std::move(*directory);
  const std::string tree = directories_.tree(out.directory);
  LayersRoot layers{{}, tree + "/upper", tree + "/work"};
  for (const RootKind::Layer& layer : out.kind.layers) layers.lower.push_back(layer.path);
  auto copied = copy_root_mode(layers.lower.front(), layers.upper);
  auto slot = copied ? slots_.take(out.kind.network) : Failure(copied.error());
  if (!slot) {
    directories_.discard(out.directory);
    return Failure(slot.error());
  }
  out.slot = std::move(*slot);
  StagePlan plan;
  plan.root = std::move(layers);
  if (out.kind.host) plan.root = HostRoot{std::get<LayersRoot>(std::move(plan.root))};
  plan.userns = out.slot.userns.get();
  plan.id_base = out.slot.id_base;
  plan.netns = out.slot.netns.get();
  plan.shm_bytes = shm_bytes_;
  plan.cgroup_view = cgroup_view_;
  auto stage = build_stage(std::move(plan));
  if (!stage) {
    give_back(std::move(out));
    return Failure(stage.error());
  }
  out.stage = std::move(*stage);
  return out;
}

void ReadyRoots::refill() {
  std::optional<ReadyRoot> old;
  RootKind kind;
  {
    const std::lock_guard lock(mutex_);
    if (!wanted_ || making_ || (ready_ && ready_->kind == *wanted_)) return;
    kind = *wanted_;
    old = std::exchange(ready_, std::nullopt);
    making_ = true;
  }
  if (old) give_back(std::move(*old));
  // Only what is there anyway: a sandbox to come must not take the last address from one that is asked for.
  auto made = slots_.counts().ready > 1 ? make(std::move(kind)) : fail(Code::Unavailable, "");
  if (!made && made.error().code != Code::Unavailable) {
    log_warn("no root prepared", {{"error", made.error().message}});
  }
  {
    const std::lock_guard lock(mutex_);
    making_ = false;
    if (made) ready_ = std::move(*made);
  }
  made_.notify_all();
}

}  // namespace osb::sandboxd
