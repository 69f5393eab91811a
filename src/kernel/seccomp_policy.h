#pragma once

#include <cerrno>
#include <cstdint>
#include <initializer_list>
#include <linux/filter.h>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"

namespace osb::kernel {

// A seccomp program for this machine's architecture, from rules that know system calls by name. Starts closed and opens
// by name. A call that no rule names fails with ENOSYS, not EPERM: libc then falls back to an older call. Names the
// architecture or this build does not know are skipped: they stay closed, so one list fits all hosts. Calls made
// through another architecture's entry (32-bit, x32) kill the process.
//
// We compile the program ourselves, as a binary search over ranges of numbers: libseccomp has no "otherwise" for a call
// with conditions, and compares all 64 bits of an argument of which the kernel uses 32.
class SeccompPolicy {
 public:
  // Holds if (the lower 32 bits of the argument & mask) == value. The upper half is not looked at, because the kernel
  // does not look at it either where a parameter is an int: a rule that did could be passed by. A rule about a pointer
  // needs two conditions, the second with `upper`.
  struct Argument {
    unsigned index;
    std::uint32_t mask;
    std::uint32_t value;
    bool upper = false;

    bool operator==(const Argument&) const = default;
  };
  static constexpr std::uint32_t kWhole = 0xffff'ffff;

  // For each call: its conditional rules in the order they were given, the first that holds wins; then the
  // unconditional one, of which the last given counts.
  SeccompPolicy& allow(std::initializer_list<const char*> names);
  SeccompPolicy& deny(std::initializer_list<const char*> names, int error = EPERM);
  SeccompPolicy& allow_if(const char* name, std::initializer_list<Argument> all_of);
  SeccompPolicy& deny_if(const char* name, std::initializer_list<Argument> all_of, int error = EPERM);

  // Code::Unsupported on an architecture that is not supported; Code::Internal when it is longer than the kernel
  // takes.
  Result<std::vector<sock_filter>> program() const;

 private:
  struct Rule {
    std::vector<Argument> all_of;
    std::uint32_t action;
  };
  struct Call {
    std::vector<Rule> rules;
    std::uint32_t otherwise;
  };
  Call* find(const char* name);  // nothing for a name to skip

  std::map<std::uint32_t, Call> calls_;  // by number
};

// Puts the calling thread under `program` for good. Wants no_new_privs or CAP_SYS_ADMIN in the own user namespace.
// Returns 0 or an errno. System calls only: it may run in a child between clone and exec.
int install_seccomp(std::span<const sock_filter> program) noexcept;

}  // namespace osb::kernel
