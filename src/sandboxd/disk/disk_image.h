#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"

namespace osb::sandboxd {

// A btrfs in one file, `<state>/disk.btrfs`, for everything that sandboxes write, on hosts whose own file system cannot
// limit directories. The file is sparse: it takes the space that is used.
//
// The mount is in the daemon's own mount namespace, at `<state>/disk`. It lasts as long as the daemon or a sandbox on
// it lives, and nothing of it is left on the host after that: no mount, no loop device. A daemon that starts while
// sandboxes live finds the same file system.
struct DiskImage {
  std::string state_directory;
  std::uint64_t bytes = 0;  // 0: none is made; one that exists is used all the same

  std::string file() const { return state_directory + "/disk.btrfs"; }
  std::string mount_point() const { return state_directory + "/disk"; }
  // Whether the state has an image or shall get one.
  bool wanted() const;

  // Makes the image if it is missing, and makes a smaller one grow to `bytes`; then mounts it. In a mount namespace of
  // our own, with the state locked. Code::Conflict: sandboxes or volumes lie beside it already.
  Result<void> mount() const;
  // Whether mount() can work here: btrfs, loop devices, mkfs.btrfs.
  Result<void> probe() const;

 private:
  Result<void> make() const;
};

// Code::Conflict: `directory` has sandboxes or named volumes already, which `setting` would hide.
Result<void> refuse_hidden_state(const std::string& directory, const std::string& setting);

}  // namespace osb::sandboxd
