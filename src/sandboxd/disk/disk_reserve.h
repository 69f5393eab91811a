#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"

namespace osb::sandboxd {

inline constexpr const char* kDiskLow = "NATIVE::DISK_LOW";

// The part of the state directory's file system that creates, image pulls and uploads, snapshots and new volumes leave
// free: running sandboxes, records and removals need it. Any thread.
struct DiskReserve {
  // A negative number stands for a twentieth of the file system, at most kMostBytes and kMostInodes. 0: no reserve.
  std::int64_t bytes = -1;
  std::int64_t inodes = -1;
  std::string directory = "";  // any on the file system; empty: check() always succeeds

  static constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;
  static constexpr std::uint64_t kMostInodes = 100'000;

  // One statvfs(). Code::Exhausted with kDiskLow: less is free than the reserve. A file system that does not count
  // inodes (btrfs) has enough of them.
  Result<void> check() const;
};

// The same for known numbers.
struct DiskSpace {
  std::uint64_t bytes = 0, free_bytes = 0;
  std::uint64_t inodes = 0, free_inodes = 0;  // inodes 0: not counted
};
Result<void> check_reserve(const DiskReserve& reserve, const DiskSpace& space);

}  // namespace osb::sandboxd
