#include "execd/hook/startup_status.h"

#include <fcntl.h>

#include "sys/syscall.h"
#include "sys/write_all.h"

namespace osb::execd {

Result<void> StartupStatus::append(std::string_view line) const {
  if (!wanted()) return {};
  // Without O_NONBLOCK a FIFO that nobody reads would hold up the loop.
  const auto file = sys::open_at(AT_FDCWD, path_, O_WRONLY | O_APPEND | O_NONBLOCK);
  if (!file) return with_context("--lifecycle-startup-status-file", file.error());
  return sys::write_all(file->get(), line, path_);
}

Result<void> StartupStatus::running(std::chrono::seconds limit) const {
  return append("running " + std::to_string(limit.count()) + "\n");
}

Result<void> StartupStatus::done(bool succeeded) const { return append(succeeded ? "done 0\n" : "done 1\n"); }

}  // namespace osb::execd
