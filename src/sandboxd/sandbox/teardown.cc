#include "sandboxd/sandbox/teardown.h"

#include <csignal>
#include <cstring>
#include <filesystem>
#include <set>
#include <sys/wait.h>
#include <unistd.h>

#include "base/id.h"
#include "base/log.h"
#include "kernel/btrfs.h"
#include "sys/pidfd.h"
#include "sys/remove_tree.h"
#include "sys/syscall.h"

namespace osb::sandboxd {

namespace fs = std::filesystem;

namespace {

// A killed process can be held up by a disk or a network file system that does not answer.
constexpr std::chrono::milliseconds kDeathLimit = std::chrono::seconds(20);

}  // namespace

void Teardown::end(SandboxRecord& record, LiveSandbox live) const {
  const std::string& id = record.spec.id;
  bool dead = true;
  // Before anything ends: a connection that begins while processes die could find a namespace that does not answer.
  if (live.slot) {
    if (auto refused = parts_.rules.refuse(live.slot->index); !refused)
      log_error("address not refused", {{"id", id}, {"error", refused.error().message}});
  }
  if (live.cgroup) {
    if (auto killed = live.cgroup->kill(); !killed)
      log_error("kill failed", {{"id", id}, {"error", killed.error().message}});
  }
  if (live.pidfd.get() >= 0) {
    // PID 1 is the last of its namespace: when it has ended, all others have.
    if (!live.cgroup) (void)sys::send_signal(live.pidfd.get(), SIGKILL);
    dead = sys::wait_ended(live.pidfd.get(), kDeathLimit);
    siginfo_t info{};
    if (dead) ::waitid(P_PIDFD, static_cast<id_t>(live.pidfd.get()), &info, WEXITED | WNOHANG);
  }
  config_.step("killed");
  if (live.cgroup) {
    const auto empty = live.cgroup->wait_empty(kDeathLimit);
    if (!empty || !*empty) dead = false;
    if (auto removed = live.cgroup->remove(); !removed) {
      log_error("cgroup left", {{"id", id}, {"error", removed.error().message}});
    }
  }
  config_.step("cgroup removed");
  launcher_.remove_from_runtime(record);
  if (live.slot) {
    (void)parts_.rules.unpublish_all(live.slot->index);
    // A slot with a process that did not die stays closed: it is dropped, not used again.
    if (parts_.policies != nullptr && dead) parts_.policies->remove(id);
    // A socket may have left through a volume to another process; gVisor takes the addresses away.
    const bool recyclable = dead && live.pidfd.get() >= 0 && record.volumes.empty() && record.spec.volumes.empty() &&
                            !record.spec.nested_user_namespaces && !record.spec.isolated_sessions &&
                            record.spec.runtime.empty();
    parts_.slots.give_back(std::move(*live.slot), recyclable);
  }
  record.slot.reset();
  record.status.address.clear();
  record.status.ports.clear();
  config_.step("slot returned");
}

void Teardown::erase(const SandboxRecord& record) const {
  const std::string& id = record.spec.id;
  ::unlink(config_.socket(id).c_str());
  for (const std::string& volume : record.volumes_to_delete) {
    if (auto removed = parts_.volumes.remove(volume, 0); !removed && removed.error().code != Code::NotFound) {
      log_warn("volume kept", {{"id", id}, {"volume", volume}, {"error", removed.error().message}});
    }
  }
  config_.step("volumes removed");
  const std::string trash = config_.disk() + "/trash/" + id + "." + new_hex_id();
  if (::rename(config_.directory(id).c_str(), trash.c_str()) < 0 && errno != ENOENT) {
    log_error("directory left", {{"id", id}, {"error", std::strerror(errno)}});
  }
  config_.step("erased");
}

void Teardown::empty_trash() const {
  auto trash = sys::open_at(AT_FDCWD, config_.disk() + "/trash", O_RDONLY | O_DIRECTORY);
  if (!trash) return;
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(config_.disk() + "/trash", error)) {
    names.push_back(entry.path().filename().string());
  }
  for (const std::string& name : names) {
    if (auto removed = config_.trees.remove(trash->get(), name); !removed) {
      log_warn("trash left", {{"name", name}, {"error", removed.error().message}});
    }
  }
  if (config_.trees.means() == DiskMeans::BtrfsGroup && !config_.reserve.check()) {
    kernel::free_removed_subvolumes(trash->get());
  }
}

void Teardown::sweep_cgroup(const std::string& id) const {
  auto cgroup = parts_.cgroups.open_existing(id);
  if (!cgroup) return;
  (void)(*cgroup)->kill();
  (void)(*cgroup)->wait_empty(kDeathLimit);
  if (auto removed = (*cgroup)->remove(); !removed) {
    log_error("cgroup left", {{"id", id}, {"error", removed.error().message}});
  }
}

void Teardown::sweep(const std::vector<std::string>& living) const {
  const std::set<std::string> keep(living.begin(), living.end());
  for (const std::string& id : parts_.cgroups.list()) {
    if (keep.contains(id)) continue;
    log_info("ending a sandbox without a record", {{"id", id}});
    sweep_cgroup(id);
  }
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(config_.run_directory + "/execd", error)) {
    if (!keep.contains(entry.path().stem().string())) ::unlink(entry.path().c_str());
  }
  auto runtimes = sys::open_at(AT_FDCWD, config_.run_directory + "/oci", O_RDONLY | O_DIRECTORY);
  for (const auto& entry : fs::directory_iterator(config_.run_directory + "/oci", error)) {
    if (runtimes && !keep.contains(entry.path().filename().string())) {
      (void)sys::remove_tree(runtimes->get(), entry.path().filename().string());
    }
  }
}

}  // namespace osb::sandboxd
