#include "execd/daemon/clone3_compat.h"

#include <cctype>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <string>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/json_escape.h"
#include "base/text.h"
#include "sys/syscall.h"

namespace osb::execd {
namespace {

constexpr const char* kApplied = "_EXECD_CLONE3_COMPAT_APPLIED";

}  // namespace

Result<Clone3Compat> parse_clone3_compat(std::string_view value) {
  value = trimmed(value);
  const std::string word = lower(value);
  if (word.empty() || word == "0" || word == "false" || word == "off" || word == "no") return Clone3Compat::Off;
  if (word == "1" || word == "true" || word == "yes" || word == "on") return Clone3Compat::On;
  if (word == "reexec") return Clone3Compat::Reexec;
  return fail(Code::InvalidRequest, "EXECD_CLONE3_COMPAT=" + in_quotes(value) + ": expected 1, 0 or reexec");
}

Result<void> forbid_clone3() {
  // clone3 has one number on all architectures, x32 calls included once their bit is off. For callers of every
  // architecture (a 64-bit kernel also takes 32-bit calls) this number means clone3.
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, ~0x40000000u),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (ENOSYS & SECCOMP_RET_DATA)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{static_cast<unsigned short>(std::size(program)), program};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) return sys::from_errno("set no_new_privs", errno);
  const long rc = ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter);
  if (rc < 0) return sys::from_errno("install seccomp filter", errno);
  if (rc > 0) return fail(Code::Internal, "install seccomp filter: thread " + std::to_string(rc) + " does not take it");
  return {};
}

Result<void> apply_clone3_compat(std::string_view value, char** argv) {
  const auto mode = parse_clone3_compat(value);
  if (!mode) return Failure(mode.error());
  if (*mode == Clone3Compat::Off) return {};
  const bool applied = std::getenv(kApplied) != nullptr;
  if (*mode == Clone3Compat::Reexec && applied) return {};  // the filter has survived the exec
  if (auto forbidden = forbid_clone3(); !forbidden) return with_context("EXECD_CLONE3_COMPAT", forbidden.error());
  if (*mode != Clone3Compat::Reexec) return {};
  if (::setenv(kApplied, "1", 1) < 0) return sys::from_errno("EXECD_CLONE3_COMPAT: set environment", errno);
  ::execv("/proc/self/exe", argv);
  const int failed = errno;
  // An image without /proc: try the name we were started by.
  ::execv(argv[0], argv);
  return sys::from_errno("EXECD_CLONE3_COMPAT: run myself again", failed);
}

}  // namespace osb::execd
