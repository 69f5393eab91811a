#include "execd/daemon/core_limit.h"

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

#include "sys/syscall.h"

namespace osb::execd {
namespace {

constexpr unsigned kX32 = 0x40000000;  // set in the numbers of x32 calls, which mean the same

// One calling convention of the machine's kernel.
struct Calls {
  unsigned architecture, setrlimit, prlimit;
};
#if defined(__x86_64__)
constexpr Calls kCalls[] = {{AUDIT_ARCH_X86_64, 160, 302}, {AUDIT_ARCH_I386, 75, 340}};
#elif defined(__aarch64__)
constexpr Calls kCalls[] = {{AUDIT_ARCH_AARCH64, 164, 261}, {AUDIT_ARCH_ARM, 75, 369}};
#endif

constexpr unsigned low_half(unsigned argument) { return offsetof(seccomp_data, args) + argument * 8; }
constexpr unsigned high_half(unsigned argument) { return low_half(argument) + 4; }

sock_filter load(unsigned offset) { return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset); }
sock_filter unless_equal(unsigned value, std::size_t skip) {
  return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, static_cast<std::uint8_t>(skip));
}
sock_filter answer(unsigned what) { return BPF_STMT(BPF_RET | BPF_K, what); }
sock_filter error(int number) { return answer(SECCOMP_RET_ERRNO | static_cast<unsigned>(number)); }

void append(std::vector<sock_filter>& to, const std::vector<sock_filter>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

// `rules` if the word at `offset` is `value`.
std::vector<sock_filter> if_equal(unsigned offset, unsigned value, const std::vector<sock_filter>& rules) {
  std::vector<sock_filter> out = {load(offset), unless_equal(value, rules.size())};
  append(out, rules);
  return out;
}

// setrlimit(resource, new), prlimit64(pid, resource, new, old). A prlimit64 that only reads is allowed; one that sets
// and reads is refused, because its answer could not be written.
std::vector<sock_filter> rules_of(const Calls& calls) {
  const auto null = [](unsigned argument, const sock_filter& then) {
    return if_equal(low_half(argument), 0, if_equal(high_half(argument), 0, {then}));
  };
  std::vector<sock_filter> change = null(2, answer(SECCOMP_RET_ALLOW));
  append(change, null(3, error(0)));
  change.push_back(error(EPERM));
  const auto number = [](unsigned call, const std::vector<sock_filter>& rules) {
    std::vector<sock_filter> out = {load(offsetof(seccomp_data, nr)), BPF_STMT(BPF_ALU | BPF_AND | BPF_K, ~kX32),
                                    unless_equal(call, rules.size())};
    append(out, rules);
    return out;
  };
  std::vector<sock_filter> both = number(calls.setrlimit, if_equal(low_half(0), RLIMIT_CORE, {error(0)}));
  append(both, number(calls.prlimit, if_equal(low_half(1), RLIMIT_CORE, change)));
  return if_equal(offsetof(seccomp_data, arch), calls.architecture, both);
}

Result<void> install_filter() {
  std::vector<sock_filter> program;
  for (const Calls& calls : kCalls) append(program, rules_of(calls));
  program.push_back(answer(SECCOMP_RET_ALLOW));
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  if (::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) < 0) {
    return sys::from_errno("install seccomp filter", errno);
  }
  return {};
}

}  // namespace

Result<void> keep_core_limit() {
  rlimit now{};
  if (::getrlimit(RLIMIT_CORE, &now) < 0) return sys::from_errno("read the limit of core files", errno);
  const rlimit wanted{1, 1};
  if (now.rlim_max >= 1 && ::setrlimit(RLIMIT_CORE, &wanted) < 0) return sys::from_errno("limit core files", errno);
  if (::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) return {};
  return install_filter();
}

int run_script_with_core_limit(char** argv) {
  if (auto kept = keep_core_limit(); !kept) {
    std::fprintf(stderr, "execd: %s\n", kept.error().message.c_str());
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
