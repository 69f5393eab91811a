#include "cli/config/write_config.h"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "base/unique_fd.h"
#include "sys/syscall.h"
#include "sys/write_all.h"

namespace osb::cli {
namespace {

namespace fs = std::filesystem;

// Makes `directory` and the missing directories above it. They belong to the owner of `around`, the first one that
// exists.
Result<void> make_directories(const fs::path& directory, struct stat& around) {
  std::vector<fs::path> missing;
  fs::path at = directory;
  for (; ::stat(at.c_str(), &around) != 0; at = at.parent_path()) {
    if (errno != ENOENT) return sys::from_errno("look at " + at.string(), errno);
    missing.push_back(at);
  }
  for (; !missing.empty(); missing.pop_back()) {
    const char* made = missing.back().c_str();
    if (::mkdir(made, 0777) != 0) return sys::from_errno("make " + missing.back().string(), errno);
    if (::geteuid() == 0 && ::lchown(made, around.st_uid, around.st_gid) != 0) {
      return sys::from_errno("chown " + missing.back().string(), errno);
    }
  }
  return {};
}

Result<void> replace(const fs::path& target, std::string_view text, ConfigAccess access) {
  struct stat like{};
  const bool exists = ::stat(target.c_str(), &like) == 0;
  if (!exists) {
    if (auto made = make_directories(target.parent_path(), like); !made) return made;
  }
  // A name that cannot be guessed: root writes into a directory where a user could prepare a link.
  std::string temporary = target.string() + ".XXXXXX";
  const UniqueFd file(::mkostemp(temporary.data(), O_CLOEXEC));  // 0600
  if (file.get() < 0) return sys::from_errno("create " + temporary, errno);
  Result<void> done = sys::write_all(file.get(), text, temporary);
  if (done && ::geteuid() == 0 && ::fchown(file.get(), like.st_uid, like.st_gid) != 0) {
    done = sys::from_errno("chown", errno);
  }
  if (done && exists && access == ConfigAccess::AsBefore && ::fchmod(file.get(), like.st_mode & 0777) != 0) {
    done = sys::from_errno("chmod", errno);
  }
  if (done && ::rename(temporary.c_str(), target.c_str()) != 0) done = sys::from_errno("rename", errno);
  if (!done) ::unlink(temporary.c_str());
  return done;
}

}  // namespace

Expected<void> write_config(const fs::path& path, std::string_view text, ConfigAccess access) {
  std::error_code error;
  fs::path target = fs::canonical(path, error);
  if (error) target = fs::absolute(path);
  if (auto done = replace(target, text, access); !done) {
    return failed(Error(done.error().code, "write " + target.string() + ": " + done.error().message));
  }
  return {};
}

}  // namespace osb::cli
