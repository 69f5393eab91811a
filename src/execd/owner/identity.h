#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "base/error.h"

namespace osb::execd {

// The user that a file request acts as.
struct Identity {
  uid_t uid = 0;
  gid_t gid = 0;
  bool operator==(const Identity&) const = default;
};

// A decimal number from 0 to 4294967294; -1 means "change nothing" to the kernel.
std::optional<std::uint32_t> parse_id(std::string_view text);

// Two of them, else Code::InvalidRequest.
Result<Identity> parse_identity(std::string_view uid, std::string_view gid);

// The daemon's own.
Identity own_identity();

// While it exists, the calling thread has the rights of another user and no other thread does: the system calls are
// made directly, because those of libc change all threads. It has the user's effective ids and no other group, and
// unless that is root no capability in effect; the file-system ids alone would leave CAP_SYS_ADMIN and the rules that
// ask for the effective id, such as those of /proc/sys. Real and saved ids stay, for the way back and so that the user
// cannot signal or trace us.
//
// Must end on its thread, and the thread must not start another one, a process or a coroutine meanwhile. A way back
// that fails ends the program: it must not go on with foreign rights.
class IdentityScope {
 public:
  // Fails (Code::Unavailable, reason FILESYSTEM_IDENTITY_UNAVAILABLE) where we may not become that user.
  static Result<IdentityScope> enter(const Identity& identity);
  IdentityScope(IdentityScope&& other) noexcept : before_(other.before_), groups_(std::move(other.groups_)) {
    other.entered_ = false;
  }
  IdentityScope& operator=(IdentityScope&&) = delete;
  ~IdentityScope();

 private:
  IdentityScope() = default;

  Identity before_;
  std::vector<gid_t> groups_;
  bool entered_ = true;
};

// The links of /proc to open files (/proc/self/fd/7) lead past the directories on the way, and execd may always follow
// its own: the path of another user must not go through them. Fails with errno ELOOP, also for links that form a
// circle. A user who changes links between this call and the next one reaches only files that execd has open at that
// moment and whose own permission bits allow it.
Result<void> refuse_magic_links(const std::string& path);

// The same for kernels without openat2 (refuse_magic_links turns to it by itself): follows the path by hand and refuses
// every link of /proc, also the harmless ones such as /proc/self.
Result<void> refuse_proc_links(std::string path);

}  // namespace osb::execd
