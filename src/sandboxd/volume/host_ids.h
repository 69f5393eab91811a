#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/unique_fd.h"
#include "sys/passwd.h"

namespace osb::sandboxd {

// Owners of the files of a host path, seen through its mount (docs/design/0005-ids.md).
//
// Owner    Root inside is the owner of the mounted directory if no other user of the host can reach that directory.
//          Otherwise, and for all other ids inside, ids that are nobody on the host, the same for all sandboxes.
// Same     Id n inside is id n on the host. Refused where users other than root can reach the directory.
// Foreign  No map: the sandbox has the rights of "others", and its new files belong to its own range of ids.
enum class HostIds { Owner, Same, Foreign };

struct FileOwnerIds {
  uid_t uid = 0;
  gid_t gid = 0;

  bool operator==(const FileOwnerIds&) const = default;
};

// A sandbox can leave a setuid file in a host path. On the host that file gives the rights of its owner to every user
// who can reach it. So a sandbox may own files as a user of the host only where no other user can reach them.
class HostOwners {
 public:
  // Ids file_ids.. and the 65,535 that follow are nobody on the host and of no sandbox.
  HostOwners(HostIds mode, std::uint32_t file_ids) : mode_(mode), file_ids_(file_ids) {}

  // How the mount of `source` (O_PATH; `st` is its state) shows ids to a sandbox.
  struct View {
    int userns = -1;  // -1: unmapped
    UniqueFd own{};   // holds userns if it was made for this mount
  };
  // `path` is for errors. VOLUME::HOST_PATH_NOT_ALLOWED: others can reach it, see HostIds::Same.
  Result<View> view(const std::string& path, int source, const struct stat& st, bool read_only, int sandbox_userns,
                    std::uint32_t id_base);

  // The owner of a directory that is made in `parent` for a sandbox: root inside can then use it. Nothing: root's.
  std::optional<FileOwnerIds> of_new_directory(int parent);

  // Whether a directory above `source` lets only root and `user` pass. The mode of `source` itself does not count: a
  // sandbox that owns it can change it.
  bool only_reached_by(uid_t user, int source, const struct stat& st);

 private:
  std::optional<FileOwnerIds> owner_inside(int source, const struct stat& st, bool read_only);
  bool is_file_id(std::uint32_t id) const { return id >= file_ids_ && id - file_ids_ < 65'536; }
  FileOwnerIds ids_of(uid_t user);
  bool lets_only_pass(uid_t user, int directory, const struct stat& st);

  const HostIds mode_;
  const std::uint32_t file_ids_;
  std::mutex mutex_;  // of users_
  sys::UserDatabase users_;
};

}  // namespace osb::sandboxd
