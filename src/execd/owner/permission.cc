#include "execd/owner/permission.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/json_escape.h"
#include "execd/owner/owner_names.h"
#include "sys/syscall.h"

namespace osb::execd {
namespace {

constexpr uid_t kKeepUser = static_cast<uid_t>(-1);
constexpr gid_t kKeepGroup = static_cast<gid_t>(-1);

}  // namespace

Result<Permission> resolve_permission(const api::FilePermission& wanted, const OwnerNames& names) {
  Permission out;
  auto bits = api::permission_bits(wanted.mode);
  if (!bits) return Failure(bits.error());
  out.mode = *bits;
  if (!wanted.owner.empty()) {
    out.uid = names.user_id(wanted.owner);
    if (!out.uid) return fail(Code::Internal, "unknown user " + in_quotes(wanted.owner));
  }
  if (!wanted.group.empty()) {
    out.gid = names.group_id(wanted.group);
    if (!out.gid) return fail(Code::Internal, "unknown group " + in_quotes(wanted.group));
  }
  return out;
}

// The owner first: changing it takes setuid bits away, and a mode that locks us out must come last.
Result<void> apply_permission(const std::string& path, const Permission& permission) {
  if (permission.uid || permission.gid) {
    if (::chown(path.c_str(), permission.uid.value_or(kKeepUser), permission.gid.value_or(kKeepGroup)) < 0) {
      return sys::from_errno("chown " + path, errno);
    }
  }
  if (permission.mode && ::chmod(path.c_str(), *permission.mode) < 0) return sys::from_errno("chmod " + path, errno);
  return {};
}

Result<void> apply_permission(int fd, const Permission& permission, const std::string& what) {
  if (permission.uid || permission.gid) {
    if (::fchown(fd, permission.uid.value_or(kKeepUser), permission.gid.value_or(kKeepGroup)) < 0) {
      return sys::from_errno("chown " + what, errno);
    }
  }
  if (permission.mode && ::fchmod(fd, *permission.mode) < 0) return sys::from_errno("chmod " + what, errno);
  return {};
}

}  // namespace osb::execd
