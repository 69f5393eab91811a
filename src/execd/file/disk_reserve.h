#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"

namespace osb::execd {

// Free space and inodes that uploads leave on the sandbox's disk, for the records and removals of the host. The disk is
// the file system of `/`; others (tmpfs, mounted directories of another disk) have no reserve. 0 is no reserve; a
// negative number is a twentieth of the disk, at most kMostBytes and kMostInodes. Any thread.
struct DiskReserve {
  std::int64_t bytes = 0, inodes = 0;

  static constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;
  static constexpr std::uint64_t kMostInodes = 100'000;

  static constexpr std::uint64_t kStep = 1 << 20;  // an upload checks again after so many bytes

  // Code::Exhausted, DISK_LOW: the file system of the open file `fd` has less left. `path` is for the message.
  Result<void> check(int fd, const std::string& path) const;
};

// For known numbers: those of the file system of the file, and of `/`.
struct DiskNumbers {
  std::uint64_t blocks = 0, block_bytes = 0, free_blocks = 0;
  std::uint64_t inodes = 0, free_inodes = 0;  // inodes 0: not counted
};
Result<void> check_reserve(const DiskReserve& reserve, const DiskNumbers& file, const DiskNumbers& disk,
                           const std::string& path);

}  // namespace osb::execd
