#include "execd/daemon/container_walls.h"

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <string_view>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "sys/syscall.h"

namespace osb::execd {
namespace {

constexpr unsigned kX32 = 0x40000000;  // set in the numbers of x32 calls, which mean the same
constexpr unsigned kNone = 0xffff;     // the number of no call
constexpr unsigned kSetId = S_ISUID | S_ISGID;
constexpr unsigned kMakesFile = O_CREAT | (O_TMPFILE & ~O_DIRECTORY);
constexpr unsigned kBtrfsSnapshot = 0x50009401, kBtrfsSnapshotV2 = 0x50009417;  // requests of ioctl

// One calling convention of the machine's kernel.
struct Calls {
  unsigned architecture, setrlimit, prlimit, io_setup, other_io_setup;
  unsigned chmod, fchmod, fchmodat, creat, mknod, mknodat, open, openat, ioctl;
};
// The same numbers everywhere.
constexpr unsigned kFchmodat2 = 452, kOpenat2 = 437, kIoUringSetup = 425;
#if defined(__x86_64__)
constexpr Calls kCalls[] = {
    {AUDIT_ARCH_X86_64, 160, 302, 206, 543 /* x32 */, 90, 91, 268, 85, 133, 259, 2, 257, 16},
    {AUDIT_ARCH_I386, 75, 340, 245, kNone, 15, 94, 306, 8, 14, 297, 5, 295, 54},
};
constexpr unsigned kX32Ioctl = 514;
#elif defined(__aarch64__)
constexpr Calls kCalls[] = {
    {AUDIT_ARCH_AARCH64, 164, 261, 0, kNone, kNone, 52, 53, kNone, kNone, 33, kNone, 56, 29},
    {AUDIT_ARCH_ARM, 75, 369, 243, kNone, 15, 94, 333, 8, 14, 324, 5, 322, 54},
};
constexpr unsigned kX32Ioctl = kNone;
#endif

constexpr unsigned low_half(unsigned argument) { return offsetof(seccomp_data, args) + argument * 8; }
constexpr unsigned high_half(unsigned argument) { return low_half(argument) + 4; }

sock_filter load(unsigned offset) { return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset); }
sock_filter unless_equal(unsigned value, std::size_t skip) {
  return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, static_cast<std::uint8_t>(skip));
}
sock_filter answer(unsigned what) { return BPF_STMT(BPF_RET | BPF_K, what); }
sock_filter error(int number) { return answer(SECCOMP_RET_ERRNO | static_cast<unsigned>(number)); }

// Goes on if a bit of `mask` is set.
sock_filter unless_any(unsigned mask, std::size_t skip) {
  return BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, mask, 0, static_cast<std::uint8_t>(skip));
}

void append(std::vector<sock_filter>& to, const std::vector<sock_filter>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

// `rules` if the word at `offset` is `value`.
std::vector<sock_filter> if_equal(unsigned offset, unsigned value, const std::vector<sock_filter>& rules) {
  std::vector<sock_filter> out = {load(offset), unless_equal(value, rules.size())};
  append(out, rules);
  return out;
}

// `rules` if the word at `offset` has a bit of `mask`.
std::vector<sock_filter> if_any(unsigned offset, unsigned mask, const std::vector<sock_filter>& rules) {
  std::vector<sock_filter> out = {load(offset), unless_any(mask, rules.size())};
  append(out, rules);
  return out;
}

// `rules` for one system call.
std::vector<sock_filter> of_call(unsigned number, const std::vector<sock_filter>& rules) {
  if (number == kNone) return {};
  std::vector<sock_filter> out = {load(offsetof(seccomp_data, nr)), BPF_STMT(BPF_ALU | BPF_AND | BPF_K, ~kX32),
                                  unless_equal(number, rules.size())};
  append(out, rules);
  return out;
}

// setrlimit(resource, new), prlimit64(pid, resource, new, old). A prlimit64 that only reads is allowed; one that sets
// and reads is refused, because its answer could not be written.
std::vector<sock_filter> core_limit_rules(const Calls& calls) {
  const auto null = [](unsigned argument, const sock_filter& then) {
    return if_equal(low_half(argument), 0, if_equal(high_half(argument), 0, {then}));
  };
  std::vector<sock_filter> change = null(2, answer(SECCOMP_RET_ALLOW));
  append(change, null(3, error(0)));
  change.push_back(error(EPERM));
  std::vector<sock_filter> out = of_call(calls.setrlimit, if_equal(low_half(0), RLIMIT_CORE, {error(0)}));
  append(out, of_call(calls.prlimit, if_equal(low_half(1), RLIMIT_CORE, change)));
  return out;
}

// Every call that gives a file its mode. mkdir is not among them: the kernel takes no such bits from it.
std::vector<sock_filter> set_id_rules(const Calls& calls) {
  std::vector<sock_filter> out;
  const std::pair<unsigned, unsigned> modes[] = {{calls.chmod, 1},  {calls.fchmod, 1}, {calls.fchmodat, 2},
                                                 {kFchmodat2, 2},   {calls.creat, 1},  {calls.mknod, 1},
                                                 {calls.mknodat, 2}};
  for (const auto& [call, argument] : modes) {
    append(out, of_call(call, if_any(low_half(argument), kSetId, {error(EPERM)})));
  }
  const std::pair<unsigned, unsigned> opens[] = {{calls.open, 1}, {calls.openat, 2}};  // flags; the mode follows
  for (const auto& [call, argument] : opens) {
    const auto with_mode = if_any(low_half(argument + 1), kSetId, {error(EPERM)});
    append(out, of_call(call, if_any(low_half(argument), kMakesFile, with_mode)));
  }
  append(out, of_call(kOpenat2, {error(ENOSYS)}));
  append(out, of_call(kIoUringSetup, {error(ENOSYS)}));
  for (const unsigned ioctl : {calls.ioctl, kX32Ioctl}) {
    std::vector<sock_filter> snapshots = if_equal(low_half(1), kBtrfsSnapshot, {error(ENOSYS)});
    append(snapshots, if_equal(low_half(1), kBtrfsSnapshotV2, {error(ENOSYS)}));
    append(out, of_call(ioctl, snapshots));
  }
  return out;
}

Result<void> install_filter(const ContainerWalls& walls) {
  std::vector<sock_filter> program;
  for (const Calls& calls : kCalls) {
    std::vector<sock_filter> rules = core_limit_rules(calls);
    append(rules, of_call(calls.io_setup, {error(ENOSYS)}));
    append(rules, of_call(calls.other_io_setup, {error(ENOSYS)}));
    if (walls.no_set_id_files) append(rules, set_id_rules(calls));
    append(program, if_equal(offsetof(seccomp_data, arch), calls.architecture, rules));
  }
  program.push_back(answer(SECCOMP_RET_ALLOW));
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  if (::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) < 0) {
    return sys::from_errno("install seccomp filter", errno);
  }
  return {};
}

}  // namespace

Result<void> raise_container_walls(const ContainerWalls& walls) {
  rlimit now{};
  if (::getrlimit(RLIMIT_CORE, &now) < 0) return sys::from_errno("read the limit of core files", errno);
  const rlimit wanted{1, 1};
  if (now.rlim_max >= 1 && ::setrlimit(RLIMIT_CORE, &wanted) < 0) return sys::from_errno("limit core files", errno);
  if (::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) return install_filter(walls);
  if (!walls.no_set_id_files) return {};
  return fail(Code::Unsupported, "EXECD_NO_SET_ID needs no_new_privileges");
}

int run_script_behind_walls(char** argv) {
  const char* const no_set_id = std::getenv("EXECD_NO_SET_ID");
  const ContainerWalls walls{.no_set_id_files = no_set_id != nullptr && std::string_view(no_set_id) == "1"};
  if (auto raised = raise_container_walls(walls); !raised) {
    std::fprintf(stderr, "execd: %s\n", raised.error().message.c_str());
    return 1;
  }
  char shell[] = "/bin/sh";
  argv[1] = shell;
  ::execv(shell, argv + 1);
  const int failed = errno;
  std::fprintf(stderr, "execd: %s: %s: %s\n", argv[2], shell, std::strerror(failed));
  return failed == ENOENT ? 127 : 126;
}

}  // namespace osb::execd
