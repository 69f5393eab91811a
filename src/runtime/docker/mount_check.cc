#include "runtime/docker/mount_check.h"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

#include "api/lifecycle_error.h"
#include "base/json_escape.h"
#include "sys/openat2.h"
#include "sys/syscall.h"
#include "sys/text_file.h"

namespace osb::runtime {
namespace {

namespace fs = std::filesystem;

std::string own_path(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

bool same_file(int a, int b) {
  struct stat first{}, second{};
  return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

Failure leads_elsewhere(const PinnedMount& mount) {
  return api::refuse(Code::InvalidRequest, mount.reason,
                     in_quotes(mount.source) + " was replaced while the sandbox was being created");
}

// The process's number in each namespace that it is in.
bool has_number(const std::string& status, std::int64_t pid) {
  const std::size_t at = status.find("\nNSpid:");
  if (at == std::string::npos) return false;
  std::istringstream line(status.substr(at + 7, status.find('\n', at + 1) - at - 7));
  for (std::int64_t number = 0; line >> number;) {
    if (number == pid) return true;
  }
  return false;
}

// Its directory in /proc, held open: a number may be given away again.
std::optional<UniqueFd> process_of(const std::string& container, std::int64_t pid, const std::string& directory) {
  UniqueFd process(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (process.get() < 0) return std::nullopt;
  const std::string path = own_path(process.get());
  if (!sys::read_text(path + "/cgroup").value_or("").contains(container)) return std::nullopt;
  if (!has_number(sys::read_text(path + "/status").value_or(""), pid)) return std::nullopt;
  return process;
}

std::optional<UniqueFd> find_process(const std::string& container, std::int64_t pid) {
  if (auto process = process_of(container, pid, "/proc/" + std::to_string(pid))) return process;
  std::error_code error;
  for (fs::directory_iterator each("/proc", error), end; !error && each != end; each.increment(error)) {
    const std::string name = each->path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (auto process = process_of(container, pid, each->path())) return process;
  }
  return std::nullopt;
}

}  // namespace

Result<UniqueFd> open_pinned(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (file.get() < 0) return sys::from_errno("open " + path, errno);
  std::error_code error;
  const fs::path found = fs::read_symlink(own_path(file.get()), error);
  if (error || found != path) return fail(Code::Conflict, in_quotes(path) + " leads elsewhere by now");
  return file;
}

Result<void> check_sources(const std::vector<PinnedMount>& mounts) {
  for (const PinnedMount& mount : mounts) {
    const auto now = open_pinned(mount.source);
    if (!now || !same_file(now->get(), mount.file.get())) return leads_elsewhere(mount);
  }
  return {};
}

Result<bool> check_mounted(const std::vector<PinnedMount>& mounts, const std::string& container, std::int64_t pid) {
  if (container.empty() || pid <= 0) return false;
  const auto process = find_process(container, pid);
  if (!process) return false;
  const UniqueFd root(::openat(process->get(), "root", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (root.get() < 0) return false;
  for (const PinnedMount& mount : mounts) {
    // Links in the image are the container's.
    const auto seen = sys::openat2(root.get(), mount.target, O_PATH, RESOLVE_IN_ROOT);
    if (!seen && (seen.error().sys_errno == ENOSYS || seen.error().sys_errno == EPERM)) return false;
    if (!seen && seen.error().code == Code::Unavailable) return Failure(seen.error());
    if (!seen || !same_file(seen->get(), mount.file.get())) return leads_elsewhere(mount);
  }
  return true;
}

}  // namespace osb::runtime
