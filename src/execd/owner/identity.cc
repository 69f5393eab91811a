#include "execd/owner/identity.h"

#include <cstdlib>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/limits.h>
#include <linux/magic.h>
#include <optional>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/log.h"
#include "base/parse_number.h"
#include "execd/path/path.h"
#include "sys/openat2.h"
#include "sys/syscall.h"

namespace osb::execd {
namespace {

// Of the calling thread alone.
bool set_effective_user(uid_t uid) { return ::syscall(SYS_setresuid, -1, uid, -1) == 0; }
bool set_effective_group(gid_t gid) { return ::syscall(SYS_setresgid, -1, gid, -1) == 0; }
bool set_groups(const std::vector<gid_t>& groups) {
  return ::syscall(SYS_setgroups, groups.size(), groups.data()) == 0;
}

bool has_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  return ::syscall(SYS_capget, &header, data) < 0 || data[0].effective != 0 || data[1].effective != 0;
}

Failure unavailable(const Identity& identity, const std::string& why) {
  Error error(Code::Unavailable,
              "cannot act as " + std::to_string(identity.uid) + ":" + std::to_string(identity.gid) + ": " + why);
  error.reason = "FILESYSTEM_IDENTITY_UNAVAILABLE";
  return Failure(std::move(error));
}

Failure unavailable(const Identity& identity, int error) {
  return unavailable(identity, std::generic_category().message(error));
}

}  // namespace

std::optional<std::uint32_t> parse_id(std::string_view text) {
  const auto id = parse_number<std::uint32_t>(text);
  return id && *id != UINT32_MAX ? id : std::nullopt;
}

Result<Identity> parse_identity(std::string_view uid, std::string_view gid) {
  const auto user = parse_id(uid), group = parse_id(gid);
  if (!user) return fail(Code::InvalidRequest, "uid: expected an integer from 0 to 4294967294");
  if (!group) return fail(Code::InvalidRequest, "gid: expected an integer from 0 to 4294967294");
  return Identity{*user, *group};
}

Identity own_identity() { return {::geteuid(), ::getegid()}; }

Result<IdentityScope> IdentityScope::enter(const Identity& identity) {
  IdentityScope scope;
  scope.before_ = own_identity();
  const int count = ::getgroups(0, nullptr);
  scope.groups_.resize(static_cast<std::size_t>(std::max(count, 0)));
  if (count < 0 || ::getgroups(count, scope.groups_.data()) != count) {
    scope.entered_ = false;
    return unavailable(identity, errno);
  }
  // The groups first: without privilege nothing has been changed when they fail.
  if (!set_groups({identity.gid})) {
    scope.entered_ = false;
    return unavailable(identity, errno);
  }
  if (!set_effective_group(identity.gid) || !set_effective_user(identity.uid)) return unavailable(identity, errno);
  // A process may have asked the kernel to leave them alone (SECBIT_NO_SETUID_FIXUP).
  if (identity.uid != 0 && has_capabilities()) return unavailable(identity, "capabilities stay in effect");
  return scope;
}

IdentityScope::~IdentityScope() {
  if (!entered_) return;
  if (set_effective_user(before_.uid) && set_effective_group(before_.gid) && set_groups(groups_)) return;
  log_error("own identity is lost", {{"error", std::generic_category().message(errno)}});
  std::abort();
}

Result<void> refuse_proc_links(std::string path) {
  for (int hops = 0; hops < 40; ++hops) {
    std::string done = "/";
    std::string next;
    for (std::string_view rest = path; !rest.empty() && next.empty();) {
      const std::size_t slash = std::min(rest.find('/'), rest.size());
      const std::string_view part = rest.substr(0, slash);
      rest.remove_prefix(std::min(slash + 1, rest.size()));
      if (part.empty() || part == ".") continue;
      const std::string here = done + std::string(part);
      auto entry = sys::open_at(AT_FDCWD, here, O_PATH | O_NOFOLLOW);
      struct stat st;
      // If the entry is missing, or we may not open it, the next call will report that.
      if (!entry || ::fstat(entry->get(), &st) < 0) return {};
      if (!S_ISLNK(st.st_mode)) {
        done = here + "/";
        continue;
      }
      struct statfs system;
      if (::fstatfs(entry->get(), &system) < 0 || system.f_type == PROC_SUPER_MAGIC) {
        return sys::from_errno("open " + here, ELOOP);
      }
      char target[PATH_MAX];
      const ssize_t n = ::readlinkat(entry->get(), "", target, sizeof target);
      if (n <= 0) return sys::from_errno("readlink " + here, n < 0 ? errno : ENOENT);
      next = std::string(target, static_cast<std::size_t>(n));
      if (!next.starts_with('/')) next = done + next;
      next.append("/").append(rest);
    }
    if (next.empty()) return {};
    path = std::move(next);
  }
  return sys::from_errno("open " + path, ELOOP);
}

Result<void> refuse_magic_links(const std::string& path) {
  const UniqueFd file(sys::try_openat2(AT_FDCWD, path.c_str(), O_PATH, RESOLVE_NO_MAGICLINKS));
  if (file) return {};
  if (errno == ENOSYS || errno == EPERM) return refuse_proc_links(path);
  // EAGAIN and EINTR: it is not known yet whether a link is in the way.
  if (errno == ELOOP || errno == EAGAIN || errno == EINTR) return sys::from_errno("open " + path, errno);
  return {};  // the call that wants the file will tell
}

}  // namespace osb::execd
