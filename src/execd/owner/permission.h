#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>

#include "api/execd_requests.h"
#include "base/error.h"

namespace osb::execd {

class OwnerNames;

// The attributes of a file to change; an unset one stays.
struct Permission {
  std::optional<mode_t> mode;  // rwx bits
  std::optional<uid_t> uid;
  std::optional<gid_t> gid;
};

// Unknown names and digits that are not octal are errors, which this contract answers with 500.
Result<Permission> resolve_permission(const api::FilePermission& wanted, const OwnerNames& names);

// Follows symlinks.
Result<void> apply_permission(const std::string& path, const Permission& permission);
Result<void> apply_permission(int fd, const Permission& permission, const std::string& what);

}  // namespace osb::execd
