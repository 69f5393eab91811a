#include "execd/file/disk_reserve.h"

#include <algorithm>
#include <cerrno>
#include <sys/statvfs.h>

#include "base/concat.h"
#include "sys/syscall.h"

namespace osb::execd {
namespace {

Failure low(const std::string& path, const std::string& numbers) {
  Error error(Code::Exhausted,
              concat(path, ": the disk is nearly full: ", numbers,
                     " kept free; remove files here, or sandboxes, snapshots, volumes or images of the host"));
  error.reason = "DISK_LOW";
  return Failure(std::move(error));
}

constexpr std::uint64_t kShare = 20;

std::uint64_t resolve(std::int64_t wanted, std::uint64_t all, std::uint64_t most) {
  return wanted < 0 ? std::min(all / kShare, most) : static_cast<std::uint64_t>(wanted);
}

DiskNumbers numbers(const struct statvfs& found) {
  return {found.f_blocks, found.f_frsize, found.f_bavail, found.f_files, found.f_favail};
}

}  // namespace

Result<void> check_reserve(const DiskReserve& reserve, const DiskNumbers& file, const DiskNumbers& disk,
                           const std::string& path) {
  // st_dev differs between an overlay and a volume on the same disk; the sizes do not.
  if (file.blocks != disk.blocks || file.block_bytes != disk.block_bytes || file.inodes != disk.inodes) return {};
  const std::uint64_t bytes = resolve(reserve.bytes, file.blocks * file.block_bytes, DiskReserve::kMostBytes);
  if (const std::uint64_t free = file.free_blocks * file.block_bytes; free < bytes) {
    return low(path, concat(free >> 20, " MiB are free, ", bytes >> 20, " MiB are"));
  }
  const std::uint64_t inodes = resolve(reserve.inodes, file.inodes, DiskReserve::kMostInodes);
  if (file.inodes != 0 && file.free_inodes < inodes) {
    return low(path, concat(file.free_inodes, " inodes are free, ", inodes, " are"));
  }
  return {};
}

Result<void> DiskReserve::check(int fd, const std::string& path) const {
  if (bytes == 0 && inodes == 0) return {};
  struct statvfs file{}, disk{};
  if (::fstatvfs(fd, &file) < 0) return sys::from_errno("look at the disk of " + path, errno);
  if (::statvfs("/", &disk) < 0) return sys::from_errno("look at the disk of /", errno);
  return check_reserve(*this, numbers(file), numbers(disk), path);
}

}  // namespace osb::execd
