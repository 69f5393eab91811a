#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace osb::sys {

// The part of a backend's file systems that creates, image pulls and uploads, snapshots and new volumes leave
// free: running sandboxes, records and removals need it. Any thread.
struct DiskReserve {
  // A negative number stands for a twentieth of the file system, at most kMostBytes and kMostInodes. 0: no reserve.
  std::int64_t bytes = -1;
  std::int64_t inodes = -1;
  // One for each file system that counts; none: check() always succeeds.
  struct Place {
    std::string directory;
    std::uint64_t unusable = 0;  // bytes that are shown as free and are not (WritableDisk)
  };
  std::vector<Place> places = {};
  // For the error: its code, and the section of the settings above.
  std::string reason = "DISK_LOW";
  std::string section = "[disk]";

  static constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;
  static constexpr std::uint64_t kMostInodes = 100'000;

  // The reserve of a file system of this size.
  std::uint64_t bytes_of(std::uint64_t size) const;

  // The reserve in numbers, for execd, which sees only the disk that sandboxes write to (the last place): bytes that
  // are shown as free and must stay, and inodes. Zeros: no reserve, or the disk cannot be asked.
  struct Kept {
    std::uint64_t bytes = 0, inodes = 0;
    bool operator==(const Kept&) const = default;
  };
  Kept kept() const;

  // One statvfs() for each place. Code::Exhausted with `reason`: less is free than the reserve. A file system that
  // does not count inodes (btrfs) has enough of them.
  Result<void> check() const;
};

// The same for known numbers.
struct DiskSpace {
  std::uint64_t bytes = 0, free_bytes = 0;
  std::uint64_t inodes = 0, free_inodes = 0;  // inodes 0: not counted
};
Result<void> check_reserve(const DiskReserve& reserve, const DiskSpace& space, const std::string& directory);

}  // namespace osb::sys
