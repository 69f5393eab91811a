#include "sys/file_lock.h"

#include <cerrno>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/log.h"
#include "base/parse_number.h"
#include "sys/syscall.h"
#include "sys/text_file.h"
#include "sys/write_all.h"

namespace osb::sys {
namespace {

// Whether the process that wrote its pid has ended. A file without a pid belongs to a process that is about to write
// one, or to an older version.
bool holder_has_ended(const std::string& path) {
  const auto text = read_text(path);
  const auto pid = text ? parse_number<pid_t>(*text) : std::nullopt;
  return pid && *pid > 0 && ::kill(*pid, 0) < 0 && errno == ESRCH;
}

}  // namespace

Result<UniqueFd> lock_file(const std::string& path) {
  auto file = open_at(AT_FDCWD, path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
  if (!file) return file;
  if (::flock(file->get(), LOCK_EX | LOCK_NB) < 0) {
    if (errno != EWOULDBLOCK) return from_errno("lock " + path, errno);
    if (!holder_has_ended(path)) return fail(Code::Conflict, path + " is locked by another process");
    log_info("waiting for the last children of a process that was killed", {{"lock", path}});
    while (::flock(file->get(), LOCK_EX) < 0) {
      if (errno != EINTR) return from_errno("lock " + path, errno);
    }
  }
  if (::ftruncate(file->get(), 0) < 0) return from_errno("truncate " + path, errno);
  if (auto written = write_all(file->get(), std::to_string(::getpid()), path); !written)
    return Failure(written.error());
  return file;
}

}  // namespace osb::sys
