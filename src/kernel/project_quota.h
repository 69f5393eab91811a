#pragma once

#include <cstdint>

#include "base/error.h"

namespace osb::kernel {

// Limits on what directory trees take on disk, by the file system's project quotas (xfs, ext4; mounted with prjquota).
// Files made below a limited directory by any user count for its project; only root of the host can take them out of
// it. `directory` is any open directory of the file system in question unless said otherwise.

bool has_project_quotas(int directory);

// A project that nothing belongs to and nothing limits.
Result<std::uint32_t> unused_project(int directory);

// Limits the project to so many bytes and inodes; beyond them writes fail: ENOSPC on xfs, EDQUOT on ext4. 0: no limit.
struct ProjectLimit {
  std::uint64_t bytes = 0;
  std::uint64_t inodes = 0;
};
Result<void> limit_project(int directory, std::uint32_t project, ProjectLimit limit);

// The empty directory, and all that will be made below it, count for the project.
Result<void> join_project(int directory, std::uint32_t project);

// 0 where it counts for none, also where there are no quotas.
std::uint32_t project_of(int directory);

}  // namespace osb::kernel
