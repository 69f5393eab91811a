#include "sys/staged_file.h"

#include <cstdio>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "sys/syscall.h"
#include "sys/write_all.h"

namespace osb::sys {
namespace {

std::string proc_path(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

}  // namespace

std::string hidden_name() {
  unsigned long long value = 0;
  // Cannot fail for so few bytes once the system has booted; a repeated name would only mean another try.
  if (::getrandom(&value, sizeof value, 0) < 0) value = static_cast<unsigned long long>(::getpid());
  char text[32];
  std::snprintf(text, sizeof text, ".osb-%016llx", value);
  return text;
}

Result<StagedFile> StagedFile::create(int directory, mode_t mode) {
  StagedFile staged;
  const int nameless = ::openat(directory, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
  if (nameless >= 0) {
    staged.file_.reset(nameless);
    // Without /proc there is no way to give it a name later.
    if (::access(proc_path(nameless).c_str(), F_OK) == 0) return staged;
    staged.file_.reset();
  } else if (errno == ENOSPC || errno == EDQUOT || errno == EROFS || errno == EACCES || errno == EMFILE) {
    return from_errno("create temporary file", errno);
  }
  staged.directory_.reset(::fcntl(directory, F_DUPFD_CLOEXEC, 0));
  if (!staged.directory_) return from_errno("dup", errno);
  const std::string name = hidden_name();
  auto file = open_at(directory, name, O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW, mode);
  if (!file) return Failure(file.error());
  staged.file_ = std::move(*file);
  staged.hidden_name_ = name;
  return staged;
}

StagedFile& StagedFile::operator=(StagedFile&& other) noexcept {
  discard();
  file_ = std::move(other.file_);
  directory_ = std::move(other.directory_);
  hidden_name_ = std::exchange(other.hidden_name_, {});
  return *this;
}

StagedFile::~StagedFile() { discard(); }

void StagedFile::discard() {
  if (directory_ && !hidden_name_.empty()) ::unlinkat(directory_.get(), hidden_name_.c_str(), 0);
  hidden_name_.clear();
}

Result<void> StagedFile::write(std::string_view bytes) { return write_all(fd(), bytes, "file"); }

Result<void> StagedFile::place(int directory, const std::string& name) {
  if (!hidden_name_.empty()) {
    if (::renameat(directory_.get(), hidden_name_.c_str(), directory, name.c_str()) < 0) {
      return from_errno("rename to " + name, errno);
    }
    hidden_name_.clear();
    return {};
  }
  // link never replaces, rename needs a name to start from: try the one, then take both.
  const std::string source = proc_path(fd());
  if (::linkat(AT_FDCWD, source.c_str(), directory, name.c_str(), AT_SYMLINK_FOLLOW) == 0) return {};
  if (errno != EEXIST) return from_errno("link " + name, errno);
  const std::string temporary = hidden_name();
  if (::linkat(AT_FDCWD, source.c_str(), directory, temporary.c_str(), AT_SYMLINK_FOLLOW) < 0) {
    return from_errno("link " + temporary, errno);
  }
  if (::renameat(directory, temporary.c_str(), directory, name.c_str()) < 0) {
    const int error = errno;
    // A nameless file may be named once only: from here on it is a hidden one.
    directory_.reset(::fcntl(directory, F_DUPFD_CLOEXEC, 0));
    hidden_name_ = temporary;
    if (!directory_) ::unlinkat(directory, temporary.c_str(), 0);
    return from_errno("rename to " + name, error);
  }
  return {};
}

Result<void> make_directories(const std::string& path, mode_t mode) {
  if (::mkdir(path.c_str(), mode) == 0) return {};
  int error = errno;
  const std::size_t slash = path.rfind('/', path.find_last_not_of('/'));
  if (error == ENOENT && slash != std::string::npos && slash > 0) {
    if (auto ok = make_directories(path.substr(0, slash), mode); !ok) return ok;
    if (::mkdir(path.c_str(), mode) == 0) return {};
    error = errno;
  }
  struct stat st;
  if (error == EEXIST || error == EROFS || error == EACCES) {
    if (::stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode)) return {};
  }
  return from_errno("mkdir " + path, error == EEXIST ? ENOTDIR : error);
}

}  // namespace osb::sys
