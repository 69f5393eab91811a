#include "sandboxd/launch/host_copy.h"

#include <array>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/syscall.h"
#include "sys/write_all.h"

namespace osb::sandboxd {
namespace {

namespace fs = std::filesystem;

// A regular file that every user of the host may read. Anything else is left out.
Result<void> copy_public_file(const std::string& from, const std::string& to, Take how) {
  auto file = sys::open_at(AT_FDCWD, from, O_RDONLY | O_NONBLOCK);
  if (!file) return file.error().sys_errno == ENOENT ? Result<void>() : Failure(file.error());
  struct stat st{};
  if (::fstat(file->get(), &st) < 0) return sys::from_errno("stat " + from, errno);
  if (!S_ISREG(st.st_mode) || (st.st_mode & S_IROTH) == 0) return {};
  // A sandbox cannot change it through an overlay's lower layer. Fails on another file system, among others.
  if (how == Take::Share && ::linkat(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), 0) == 0) return {};
  std::string text;
  std::array<char, 65536> buffer;
  for (ssize_t got; (got = ::read(file->get(), buffer.data(), buffer.size())) != 0;) {
    if (got < 0) return sys::from_errno("read " + from, errno);
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  if (how == Take::WithoutCredentials && holds_credentials(text)) return {};
  return write_file(to, text, (st.st_mode & S_IXUSR) == 0 ? 0644 : 0755);
}

// Links into /usr, or to a neighbour, lead to the same thing inside. Of others the content is taken.
bool link_works_inside(const fs::path& target, const fs::path& from) {
  const fs::path whole = (from.parent_path() / target).lexically_normal();
  return whole.string().starts_with("/usr/") || whole.string().starts_with("/etc/alternatives/") ||
         whole.parent_path() == from.parent_path();
}

}  // namespace

Result<void> make_directory(const std::string& path, mode_t mode, uid_t owner) {
  if (::mkdir(path.c_str(), mode) < 0) return sys::from_errno("make " + path, errno);
  if (::chmod(path.c_str(), mode) < 0 || ::chown(path.c_str(), owner, owner) < 0) {
    return sys::from_errno("set mode of " + path, errno);
  }
  return {};
}

Result<void> make_link(const std::string& path, const std::string& to) {
  if (::symlink(to.c_str(), path.c_str()) < 0) return sys::from_errno("make link " + path, errno);
  return {};
}

Result<void> write_file(const std::string& path, std::string_view text, mode_t mode, gid_t group) {
  auto file = sys::open_at(AT_FDCWD, path, O_CREAT | O_EXCL | O_WRONLY, 0600);
  if (!file) return Failure(file.error());
  if (group != 0 && ::fchown(file->get(), 0, group) < 0) return sys::from_errno("set group of " + path, errno);
  if (::fchmod(file->get(), mode) < 0) return sys::from_errno("set mode of " + path, errno);
  return sys::write_all(file->get(), text, path);
}

Result<void> copy_from_host(const fs::path& from, const std::string& to, Take how) {
  struct stat st{};
  if (::lstat(from.c_str(), &st) < 0) return {};
  if (S_ISLNK(st.st_mode)) {
    std::error_code failed;
    const fs::path target = fs::read_symlink(from, failed);
    if (failed) return sys::from_errno("read link " + from.string(), failed.value());
    if (link_works_inside(target, from)) return make_link(to, target.string());
  }
  if (!S_ISDIR(st.st_mode)) return copy_public_file(from.string(), to, how);
  if ((st.st_mode & S_IXOTH) == 0) return {};
  if (auto made = make_directory(to, 0755); !made) return made;
  std::error_code failed;
  for (fs::directory_iterator it(from, failed), end; !failed && it != end; it.increment(failed)) {
    if (auto copied = copy_from_host(it->path(), to + "/" + it->path().filename().string(), how); !copied)
      return copied;
  }
  if (failed) return sys::from_errno("read " + from.string(), failed.value());
  return {};
}

bool holds_credentials(std::string_view text) {
  for (std::size_t at = text.find("://"); at != std::string_view::npos; at = text.find("://", at + 3)) {
    const std::string_view authority = text.substr(at + 3);
    const std::size_t end = authority.find_first_of("/ \t\r\n\"';?#");
    if (authority.substr(0, end).find('@') != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace osb::sandboxd
