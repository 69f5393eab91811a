#include "sandboxd/launch/launch_host.h"

#include <bit>
#include <fcntl.h>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "kernel/capabilities.h"
#include "kernel/namespace.h"
#include "sys/syscall.h"

namespace osb::sandboxd {
namespace {

constexpr unsigned kMostTerminals = 64;

// Files and directories that tell about the host, where the kernel has them. They belong to the host's root, which has
// no id inside, and the sandbox's capabilities do not reach them: files closed to others need no mask (kcore, kmsg,
// sysrq-trigger), and files that only the owner may write (/proc/irq, /proc/bus, /proc/fs) need not be made read-only.
// /proc/sys is another matter: parts of it belong to the sandbox's own namespaces.
std::vector<ChildMask> masks_of_this_kernel() {
  std::vector<ChildMask> out;
  for (const char* path :
       {"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/key-users",
        "/proc/latency_stats", "/proc/sched_debug", "/proc/scsi", "/proc/sysrq-trigger", "/proc/timer_list",
        "/proc/timer_stats", "/proc/vmallocinfo", "/sys/firmware", "/sys/devices/virtual/powercap",
        // They show where the kernel lies in memory.
        "/sys/kernel/notes", "/sys/kernel/vmcoreinfo"}) {
    struct stat st{};
    if (::lstat(path, &st) != 0 || (st.st_mode & S_IRWXO) == 0) continue;
    out.push_back({path, S_ISDIR(st.st_mode) ? ChildMask::EmptyDirectory : ChildMask::NullFile,
                   std::string_view(path).starts_with("/proc/")});
  }
  out.push_back({"/proc/sys", ChildMask::ReadOnly, true});
  return out;
}

Result<LaunchHost> look_at_host() {
  LaunchHost host;
  auto made = kernel::make_empty_mount_namespace();
  if (!made) return Failure(made.error());
  host.empty_namespace = std::move(*made);
  auto sysctl = sys::open_at(AT_FDCWD, "/proc/sys/user", O_PATH | O_DIRECTORY);
  if (!sysctl) return Failure(sysctl.error());
  host.userns_sysctl = std::move(*sysctl);
  host.last_capability = 63 - std::countl_zero(kernel::all_capabilities());
  host.masks = masks_of_this_kernel();
  constexpr int kWithScopes = 6;
  host.landlock = ::syscall(kLandlockCreateRuleset, nullptr, 0, 1U) >= kWithScopes;  // 1: asks for the version
  return host;
}

}  // namespace

const Result<LaunchHost>& launch_host() {
  static const Result<LaunchHost> host = look_at_host();
  return host;
}

std::string devpts_options(std::uint32_t id_base) {
  // Group 5 is `tty` inside, as everywhere. The kernel has some thousand terminals for all (kernel.pty.max).
  return fmt::format("newinstance,ptmxmode=0666,mode=0620,gid={},max={}", id_base + 5, kMostTerminals);
}

std::string shm_options(std::uint64_t bytes) { return fmt::format("mode=1777,size={}", bytes); }

Error error_of_child(const ChildPlan& plan) {
  const std::string doing = fmt::format("{}{}{}", plan.doing, *plan.thing == '\0' ? "" : " ", plan.thing);
  if (plan.error == 0) return Error(Code::Internal, doing + ": the child was killed (out of memory?)");
  // A missing or existing file of the launch is not the object of the caller's request: no NotFound, no Conflict.
  Error error = sys::from_errno(doing, plan.error).error();
  error.code = Code::Internal;
  return error;
}

}  // namespace osb::sandboxd
