#include "execd/init/exit_record.h"

#include <cstdio>
#include <unistd.h>

#include "base/json_escape.h"
#include "base/time.h"
#include "execd/init/inherited_fd.h"
#include "sys/syscall.h"

namespace osb::execd {

std::string ExitRecord::to_json() const {
  std::string out = R"({"code":)" + std::to_string(status.code) + R"(,"signal":)" + std::to_string(status.signal) +
                    R"(,"finished_at":")" + format_timestamp_nanos(finished_at) + '"';
  if (!error.empty()) {
    out += R"(,"error":)";
    append_json_string(out, error);
  }
  if (hook_failed) out += R"(,"hook_failed":true)";
  return out + "}\n";
}

Result<void> write_exit_record(const std::string& directory, const ExitRecord& record) {
  auto dir = open_given(directory, O_RDONLY | O_DIRECTORY);
  if (!dir) return with_context("write exit record", dir.error());
  const std::string temporary = std::string(".") + kExitRecordName + ".new";
  auto file = sys::open_at(dir->get(), temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0644);
  if (!file) return with_context("write exit record", file.error());
  const std::string text = record.to_json();
  if (::write(file->get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) || ::fsync(file->get()) < 0) {
    return sys::from_errno("write exit record in " + directory, errno);
  }
  if (::renameat(dir->get(), temporary.c_str(), dir->get(), kExitRecordName) < 0) {
    return sys::from_errno("write exit record in " + directory, errno);
  }
  ::fsync(dir->get());
  return {};
}

}  // namespace osb::execd
