#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "execd/owner/permission.h"
#include "sys/staged_file.h"

namespace osb::execd {

// New contents for a path, which take effect in one step: a reader sees the old file or the new one, and when we fail
// (disk full, client gone) the old one stays as it was and nothing else is left behind.
//
// A symlink is followed, also one that points to nothing yet. A file that exists keeps its mode, owner and extended
// attributes unless told otherwise; a new one gets 0777 less the umask. Where a rename cannot put the new file in place
// (a bind-mounted file, a directory we may not write to, an owner we cannot give), the old one is overwritten with the
// complete contents, after room for them has been reserved.
//
// All calls block.
class FileReplacement {
 public:
  // `path` is clean and absolute. Directories above it that do not exist are made by place(), not here. Anything but a
  // regular file in its place is an error.
  static Result<FileReplacement> begin(const std::string& path);

  Result<void> write(std::string_view bytes) { return staged_.write(bytes); }
  // Brings the contents to the disk, before their name does: after a crash the name never stands for less than all of
  // them. Fails if the disk does.
  Result<void> write_out();
  // Returns the directory whose fsync makes the name durable.
  Result<std::string> place(const Permission& permission);
  // After place(): makes size and attributes durable. Together with the directory's fsync that is one commit of the
  // file system's journal, however many files a request has; syncing before the rename would take one for each.
  Result<void> sync();

  int fd() const { return staged_.fd(); }

 private:
  FileReplacement(sys::StagedFile staged, std::string path, std::string real_path)
      : staged_(std::move(staged)), path_(std::move(path)), real_path_(std::move(real_path)) {}

  Result<void> overwrite(const Permission& permission);

  sys::StagedFile staged_;
  std::string path_;        // as the client knows it
  std::string real_path_;   // behind its symlinks
  bool elsewhere_ = false;  // staged on another file system: only overwriting is possible
};

// Makes the names in the directory that place() returned durable. A directory that we may not read is skipped.
Result<void> sync_directory(const std::string& path);

// $TMPDIR, or /tmp: for files that have no better place yet.
std::string temporary_directory();

// Copies the first `length` bytes of `from`, or all of it, to the beginning of `to`; in the kernel where that works.
// Positions of both stay.
Result<void> copy_contents(int from, int to, std::uint64_t length = UINT64_MAX);

}  // namespace osb::execd
