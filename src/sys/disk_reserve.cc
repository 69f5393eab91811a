#include "sys/disk_reserve.h"

#include <algorithm>
#include <sys/statvfs.h>

#include "base/concat.h"
#include "sys/syscall.h"

namespace osb::sys {
namespace {

constexpr std::uint64_t kShare = 20;

std::uint64_t resolve(std::int64_t wanted, std::uint64_t all, std::uint64_t most) {
  return wanted < 0 ? std::min(all / kShare, most) : static_cast<std::uint64_t>(wanted);
}

Failure low(const DiskReserve& reserve, const std::string& directory, const std::string& free, const char* setting) {
  Error error(Code::Exhausted,
              concat("no space left for new work on the file system of ", directory, ": ", free, " kept free (",
                     reserve.section, " ", setting, "); remove sandboxes, snapshots, volumes or images"));
  error.reason = reserve.reason;
  return Failure(std::move(error));
}

}  // namespace

std::uint64_t DiskReserve::bytes_of(std::uint64_t size) const { return resolve(bytes, size, kMostBytes); }

Result<void> check_reserve(const DiskReserve& reserve, const DiskSpace& space, const std::string& directory) {
  const std::uint64_t bytes = reserve.bytes_of(space.bytes);
  if (space.free_bytes < bytes) {
    return low(reserve, directory, concat(space.free_bytes >> 20, " MiB are free, ", bytes >> 20, " MiB are"),
               "reserve_bytes");
  }
  const std::uint64_t inodes = resolve(reserve.inodes, space.inodes, DiskReserve::kMostInodes);
  if (space.inodes != 0 && space.free_inodes < inodes) {
    return low(reserve, directory, concat(space.free_inodes, " inodes are free, ", inodes, " are"), "reserve_inodes");
  }
  return {};
}

DiskReserve::Kept DiskReserve::kept() const {
  struct statvfs found{};
  if (places.empty() || ::statvfs(places.back().directory.c_str(), &found) < 0) return {};
  const std::uint64_t size = found.f_blocks * found.f_frsize, unusable = std::min(size, places.back().unusable);
  const std::uint64_t wanted = bytes_of(size - unusable);
  return {wanted == 0 ? 0 : wanted + unusable, resolve(inodes, found.f_files, kMostInodes)};
}

Result<void> DiskReserve::check() const {
  for (const auto& [directory, unusable] : places) {
    struct statvfs found{};
    if (::statvfs(directory.c_str(), &found) < 0) return sys::from_errno("look at the disk of " + directory, errno);
    const std::uint64_t size = found.f_blocks * found.f_frsize, free = found.f_bavail * found.f_frsize;
    const DiskSpace space{.bytes = size - std::min(size, unusable),
                          .free_bytes = free - std::min(free, unusable),
                          .inodes = found.f_files,
                          .free_inodes = found.f_favail};
    if (auto enough = check_reserve(*this, space, directory); !enough) return enough;
  }
  return {};
}

}  // namespace osb::sys
