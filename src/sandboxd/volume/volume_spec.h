#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace osb::sandboxd {

// One volume of a sandbox, as it was asked for.
struct VolumeSpec {
  enum class Kind {
    Host,   // a directory or regular file of the host
    Named,  // a directory that we keep under a name
    Tmpfs,  // memory, gone with the sandbox
  };
  Kind kind = Kind::Named;
  std::string source = {};    // Host: an absolute path. Named: the name. Tmpfs: empty.
  std::string sub_path = {};  // of the source; relative, may be empty
  std::string target = {};    // absolute path inside the sandbox
  bool read_only = false;

  std::uint64_t size_bytes = 0;  // Tmpfs; 0 means kDefaultTmpfsBytes
  // Host: directories of the path that are missing are made (root's, 0755), never above an allowed path. Named: the
  // volume. Both: the sub-path.
  bool create_if_missing = false;
  // Named: delete it with the sandbox, if this request made it (PreparedVolumes::to_delete).
  bool delete_with_sandbox = false;
};

inline constexpr std::uint64_t kDefaultTmpfsBytes = std::uint64_t{64} << 20;

// Checks what needs no look at the disk. The first error wins; Error::reason is the contract's:
//   VOLUME::INVALID_MOUNT_PATH  a target that is not absolute and normal ("//", ".", "..", trailing "/"), is "/", is or
//                               lies below /proc, /sys or /dev, or is taken twice
//   VOLUME::INVALID_HOST_PATH   not absolute, with "..", "//", or a trailing "/"
//   VOLUME::INVALID_PVC_NAME    not lower case letters, digits and inner hyphens, at most 253
//   VOLUME::INVALID_SUB_PATH    absolute, with a ".." component, or a sub-path of a tmpfs
Result<void> check_volumes(std::span<const VolumeSpec> specs);
Result<void> check_volume_name(std::string_view name);

// Whether `path` is `prefix` or lies below it; both absolute and normal. "/database" does not lie below "/data".
bool is_at_or_below(std::string_view path, std::string_view prefix);

}  // namespace osb::sandboxd
