#pragma once

#include <cerrno>
#include <cstdint>
#include <initializer_list>
#include <linux/filter.h>
#include <memory>
#include <optional>
#include <seccomp.h>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace osb::kernel {

// Builds a seccomp program that knows system calls by name. Starts closed and opens by name; the first failure is kept,
// so that calls chain and program() reports it.
//
// What no rule names answers ENOSYS, not EPERM: libc then falls back to the older call. Names this libseccomp does not
// know are skipped: they stay closed, so one list fits all hosts. Calls that an architecture does not have are skipped
// there too.
class SeccompPolicy {
 public:
  SeccompPolicy();

  // Adds an architecture besides the machine's own (SCMP_ARCH_X86: 32-bit programs on x86_64). Its calls follow the
  // same rules. Call it first. Programs of any other architecture are killed at their first call.
  SeccompPolicy& add_architecture(std::uint32_t architecture);

  SeccompPolicy& allow(std::initializer_list<const char*> names);
  // Only where all conditions hold (SCMP_A0(SCMP_CMP_MASKED_EQ, mask, value)); several calls for one name are
  // alternatives.
  SeccompPolicy& allow_if(const char* name, std::initializer_list<scmp_arg_cmp> conditions);
  // With `error` instead of ENOSYS: for calls whose user should hear that it is forbidden.
  SeccompPolicy& deny(std::initializer_list<const char*> names, int error = EPERM);
  SeccompPolicy& deny_if(const char* name, std::initializer_list<scmp_arg_cmp> conditions, int error = EPERM);

  // Compiled for this machine as a decision tree, not a list: loading and each call cost less.
  Result<std::vector<sock_filter>> program() const;

 private:
  void add(std::uint32_t action, const char* name, std::initializer_list<scmp_arg_cmp> conditions);

  std::unique_ptr<void, void (*)(scmp_filter_ctx)> context_;
  std::optional<Error> failed_;
};

// Puts the calling thread under `program` for good. Wants no_new_privs or CAP_SYS_ADMIN in the own user namespace.
// Returns 0 or an errno; neither allocates nor touches errno's owner, so it may run in a child after clone.
int install_seccomp(std::span<const sock_filter> program) noexcept;

}  // namespace osb::kernel
