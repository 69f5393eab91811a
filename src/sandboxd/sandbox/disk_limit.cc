#include "sandboxd/sandbox/disk_limit.h"

#include <fcntl.h>

#include "base/log.h"
#include "kernel/project_quota.h"
#include "sys/syscall.h"

namespace osb::sandboxd {
namespace {

Result<UniqueFd> open_directory(const std::string& path) {
  return sys::open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
}

}  // namespace

bool has_disk_limits(const std::string& state_directory) {
  const auto state = open_directory(state_directory);
  return state && kernel::has_project_quotas(state->get());
}

Result<void> limit_disk(const std::string& sandbox_directory, std::uint64_t bytes) {
  const auto base = open_directory(sandbox_directory);
  if (!base) return Failure(base.error());
  if (!kernel::has_project_quotas(base->get())) {
    return fail(Code::Unsupported, "limit disk_bytes: the file system of " + sandbox_directory +
                                       " has no project quotas; see `sandboxd check`");
  }
  const auto project = kernel::unused_project(base->get());
  if (!project) return with_context("limit disk_bytes", project.error());
  if (auto set = kernel::limit_project(base->get(), *project, bytes); !set) {
    return with_context("limit disk_bytes", set.error());
  }
  for (const char* name : {"upper", "work", "run"}) {
    const auto directory = sys::open_at(base->get(), name, O_RDONLY | O_DIRECTORY);
    if (!directory) return Failure(directory.error());
    if (auto joined = kernel::join_project(directory->get(), *project); !joined) {
      return with_context("limit disk_bytes", joined.error());
    }
  }
  return {};
}

std::uint32_t disk_limit_of(const std::string& sandbox_directory) {
  const auto upper = open_directory(sandbox_directory + "/upper");
  return upper ? kernel::project_of(upper->get()) : 0;
}

void free_disk_limit(const std::string& state_directory, std::uint32_t number) {
  if (number == 0) return;
  const auto state = open_directory(state_directory);
  const auto freed = state ? kernel::limit_project(state->get(), number, 0) : Failure(state.error());
  if (!freed) log_warn("disk limit left", {{"project", number}, {"error", freed.error().message}});
}

}  // namespace osb::sandboxd
