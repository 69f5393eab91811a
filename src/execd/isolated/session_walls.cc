#include "execd/isolated/session_walls.h"

#include <cerrno>
#include <cstddef>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

#include "execd/isolated/packet.h"
#include "sys/syscall.h"

namespace osb::execd {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
#error "this architecture has no seccomp filter for isolated sessions"
#endif

constexpr std::uint32_t kNewNamespaces =
    CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
// x32 calls have this bit: they would be other numbers for the same calls.
constexpr std::uint32_t kX32 = 0x40000000;

// Calls that act on the whole system or make new walls of one's own.
constexpr long kDenied[] = {
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_fsopen,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fspick,
    SYS_move_mount,
    SYS_open_tree,
    SYS_mount_setattr,
    SYS_setns,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_acct,
    SYS_quotactl,
    SYS_syslog,
    SYS_open_by_handle_at,
    SYS_fanotify_init,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_clock_adjtime,
    SYS_adjtimex,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_vhangup,
#if defined(__x86_64__)
    SYS_iopl,
    SYS_ioperm,
    SYS_modify_ldt,
#endif
};

constexpr sock_filter statement(std::uint16_t code, std::uint32_t k) { return {code, 0, 0, k}; }
constexpr sock_filter jump(std::uint32_t test, std::uint32_t k, std::uint8_t yes, std::uint8_t no) {
  return {static_cast<std::uint16_t>(BPF_JMP | test | BPF_K), yes, no, k};
}
constexpr sock_filter answer(int error) { return statement(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error & 0xffff)); }
constexpr sock_filter load(std::size_t offset) {
  return statement(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset));
}

std::vector<sock_filter> own_filter() {
  std::vector<sock_filter> out = {load(offsetof(seccomp_data, arch)), jump(BPF_JEQ, kArchitecture, 1, 0),
                                  statement(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
                                  load(offsetof(seccomp_data, nr))};
#if defined(__x86_64__)
  out.push_back(jump(BPF_JSET, kX32, 0, 1));
  out.push_back(statement(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
#endif
  for (const long number : kDenied) {
    out.push_back(jump(BPF_JEQ, static_cast<std::uint32_t>(number), 0, 1));
    out.push_back(answer(EPERM));
  }
  // Its flags are behind a pointer, where no filter can see them: "unknown" makes libc use clone.
  out.push_back(jump(BPF_JEQ, SYS_clone3, 0, 1));
  out.push_back(answer(ENOSYS));
  for (const long number : {SYS_clone, SYS_unshare}) {
    out.push_back(jump(BPF_JEQ, static_cast<std::uint32_t>(number), 0, 3));
    out.push_back(load(offsetof(seccomp_data, args)));
    out.push_back(jump(BPF_JSET, kNewNamespaces, 0, 1));
    out.push_back(answer(EPERM));
    // Behind a clone or unshare without such flags the number is not in the register any more.
    out.push_back(load(offsetof(seccomp_data, nr)));
  }
  out.push_back(statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  return out;
}

Result<void> install(std::vector<sock_filter> program) {
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  if (::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) < 0) {
    return sys::from_errno("install a seccomp filter", errno);
  }
  return {};
}

Result<void> install_given(int file) {
  auto bytes = read_memory_file(file, BPF_MAXINSNS * sizeof(sock_filter));
  if (!bytes) return Failure(bytes.error());
  if (bytes->empty() || bytes->size() % sizeof(sock_filter) != 0) {
    return fail(Code::InvalidRequest, "the sandbox's seccomp filter is damaged");
  }
  const auto* first = reinterpret_cast<const sock_filter*>(bytes->data());
  return install({first, first + bytes->size() / sizeof(sock_filter)});
}

Result<void> drop_capabilities(std::uint64_t keep) {
  for (int i = 0; ::prctl(PR_CAPBSET_READ, i, 0, 0, 0) >= 0; ++i) {
    if ((keep >> i & 1) == 0 && ::prctl(PR_CAPBSET_DROP, i, 0, 0, 0) < 0) {
      return sys::from_errno("drop capability " + std::to_string(i), errno);
    }
  }
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  if (::syscall(SYS_capget, &header, &data[0]) < 0) return sys::from_errno("capget", errno);
  for (int half = 0; half < 2; ++half) {
    const auto allowed = static_cast<std::uint32_t>(keep >> (32 * half));
    data[half].permitted &= allowed;
    data[half].effective = data[half].permitted;
    data[half].inheritable = 0;
  }
  if (::syscall(SYS_capset, &header, &data[0]) < 0) return sys::from_errno("capset", errno);
  return {};
}

// No signal and no abstract socket leads to a process outside of the session.
WallState enter_landlock_domain() {
  constexpr long kCreateRuleset = 444, kRestrictSelf = 446;
  constexpr std::uint64_t kAbstractSockets = 1, kSignals = 2;
  const std::uint64_t attributes[3] = {0, 0, kAbstractSockets | kSignals};
  const UniqueFd rules(static_cast<int>(::syscall(kCreateRuleset, attributes, sizeof attributes, 0U)));
  if (!rules) return {"unsupported", "this kernel's Landlock has no scopes"};
  if (::syscall(kRestrictSelf, rules.get(), 0U) < 0)
    return {"degraded", sys::from_errno("landlock", errno).error().message};
  return {"active", "signals and abstract sockets end at the session"};
}

}  // namespace

Result<SessionWalls> raise_session_walls(std::uint64_t capabilities, int filter) {
  SessionWalls out;
  if (auto done = drop_capabilities(capabilities); !done) return Failure(done.error());
  out.cap_drop = {"active", "bounding set and own sets are limited"};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) return sys::from_errno("set no_new_privs", errno);
  out.landlock = enter_landlock_domain();
  if (auto done = install(own_filter()); !done) return Failure(done.error());
  out.seccomp = {"active", "the list of isolated sessions"};
  if (filter >= 0) {
    if (auto done = install_given(filter); !done) return Failure(done.error());
    out.seccomp.message = "the sandbox's own profile and the list of isolated sessions";
  }
  return out;
}

}  // namespace osb::execd
