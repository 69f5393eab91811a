#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"

namespace osb::sandboxd {

class HostOwners;

// openat2 with O_PATH beneath an open directory: symbolic links are followed as long as they stay beneath it, also
// during renames; magic links never.
Result<UniqueFd> open_beneath(int directory, const std::string& path);

// The same, and directories that are missing are made (0755). Links are then followed only downwards. `owners` says
// who owns the new ones; null: root.
Result<UniqueFd> make_beneath(int directory, const std::string& path, HostOwners* owners = nullptr);

// Where an open file is now. Code::InvalidRequest: no path leads there.
Result<std::string> real_path(int fd);

// Which paths of the host sandboxes may see.
class HostPaths {
 public:
  // Links in the paths are resolved now, once: a sandbox that can write to one of them must not be able to move
  // another. A path that does not exist is taken as it is written.
  // `own`: the daemon's directories.
  HostPaths(const std::vector<std::filesystem::path>& allowed, const std::vector<std::filesystem::path>& own);

  // Opens (O_PATH) a directory or regular file. `path` is absolute and normal. `owners` as for make_beneath. `checked`
  // is called between the check and the use, for tests. Errors have the reasons that VolumeStore::prepare documents.
  Result<UniqueFd> open(const std::string& path, bool create_if_missing, HostOwners& owners,
                        const std::function<void()>& checked) const;

 private:
  struct Allowed {
    std::string written;
    std::string real;
  };
  const Allowed* covering(std::string_view path, std::string Allowed::* spelling) const;
  Result<UniqueFd> resolve(const std::string& path, bool create_if_missing, HostOwners& owners) const;

  std::vector<Allowed> allowed_;
  std::vector<std::string> own_;
};

}  // namespace osb::sandboxd
