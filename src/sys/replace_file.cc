#include "sys/replace_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/staged_file.h"
#include "sys/syscall.h"

namespace osb::sys {
namespace {

Result<void> replace(int directory, const std::string& name, std::string_view text, const FileAccess& access) {
  auto staged = StagedFile::create(directory, 0600);
  if (!staged) return Failure(staged.error());
  if (access.group && ::fchown(staged->fd(), static_cast<uid_t>(-1), *access.group) < 0) {
    return from_errno("set its group", errno);
  }
  if (::fchmod(staged->fd(), access.mode) < 0) return from_errno("set its mode", errno);
  if (auto written = staged->write(text); !written) return written;
  if (::fsync(staged->fd()) < 0) return from_errno("write it to the disk", errno);
  if (auto placed = staged->place(directory, name); !placed) return placed;
  if (::fsync(directory) < 0) return from_errno("write its name to the disk", errno);
  return {};
}

}  // namespace

Result<void> replace_file(int directory, const std::string& name, std::string_view text, const FileAccess& access) {
  auto done = replace(directory, name, text, access);
  return done ? done : with_context("write " + name, done.error());
}

Result<void> replace_file(const std::filesystem::path& path, std::string_view text, const FileAccess& access) {
  const std::string parent = path.has_parent_path() ? path.parent_path().string() : ".";
  auto directory = open_at(AT_FDCWD, parent, O_RDONLY | O_DIRECTORY);
  auto done = directory ? replace(directory->get(), path.filename().string(), text, access) : Failure(directory.error());
  return done ? done : with_context("write " + path.string(), done.error());
}

}  // namespace osb::sys
