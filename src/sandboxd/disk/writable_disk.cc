#include "sandboxd/disk/writable_disk.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/log.h"
#include "kernel/btrfs.h"
#include "sandboxd/disk/disk_image.h"
#include "sandboxd/disk/image_tree.h"
#include "sys/syscall.h"

namespace osb::sandboxd {
namespace {

constexpr std::uint64_t kLargestDefault = std::uint64_t{10} << 30;
constexpr std::uint64_t kDefaultShare = 4;
// Space is given to data and metadata in chunks: a chunk of metadata is a tenth of a small disk, 1 GiB of a large one.
constexpr std::uint64_t kMetadataShare = 8;
constexpr std::uint64_t kLeastMetadata = std::uint64_t{64} << 20, kMostMetadata = std::uint64_t{2} << 30;

// All trees together leave half of the reserve, so that the daemon can write its records: new work is refused at the
// whole reserve, before any sandbox meets this limit.
Result<void> limit_all_trees(const WritableDisk& disk, const sys::DiskReserve& reserve) {
  const auto root = sys::open_at(AT_FDCWD, disk.directory, O_RDONLY | O_DIRECTORY);
  if (!root) return Failure(root.error());
  const std::uint64_t kept = std::min(reserve.bytes_of(disk.bytes) / 2, disk.bytes / 2);
  return kernel::limit_btrfs_group(root->get(), kAllTrees, disk.bytes - kept);
}

Result<void> prepare_directory(const std::string& directory) {
  const auto opened = sys::open_at(AT_FDCWD, directory, O_RDONLY | O_DIRECTORY);
  if (!opened) return with_context("[disk] directory", opened.error());
  if (!kernel::is_btrfs(opened->get())) return {};
  return kernel::enable_btrfs_quotas(opened->get());
}

// Where image files are, or shall be: they stay in use when the setting is taken away. A directory with templates says
// that there are some.
Result<DiskTrees> find_trees(const DiskConfig& config, const std::string& directory) {
  const std::string templates = directory + "/image-files";
  const bool exist = ::access(templates.c_str(), F_OK) == 0;
  const DiskMeans means = find_disk_means(directory);
  if (!exist && (!config.image_files || means != DiskMeans::None)) return DiskTrees(means);
  if (auto possible = probe_image_trees(); !possible) return with_context("[disk] image_files", possible.error());
  if (!exist) {
    if (auto clear = refuse_hidden_state(directory, "[disk] image_files"); !clear) return Failure(clear.error());
    if (::mkdir(templates.c_str(), 0700) < 0) return sys::from_errno("make " + templates, errno);
  }
  return DiskTrees(DiskMeans::ImageFile, templates);
}

}  // namespace

Result<WritableDisk> open_writable_disk(const DiskConfig& config, const std::string& state_directory) {
  WritableDisk out;
  out.directory = state_directory;
  const DiskImage image{state_directory, config.image_bytes};
  if (!config.directory.empty()) {
    if (image.wanted()) {
      return fail(
          Code::InvalidRequest,
          "[disk] directory: the state directory has a disk image, or shall have one (image_bytes): choose one");
    }
    out.directory = config.directory;
    if (auto prepared = prepare_directory(config.directory); !prepared) return Failure(prepared.error());
  } else if (image.wanted()) {
    if (auto mounted = image.mount(); !mounted) return Failure(mounted.error());
    out.directory = image.mount_point();
  }
  struct statvfs found{};
  if (::statvfs(out.directory.c_str(), &found) < 0) return sys::from_errno("look at " + out.directory, errno);
  out.bytes = found.f_blocks * found.f_frsize;
  auto trees = find_trees(config, out.directory);
  if (!trees) return Failure(trees.error());
  out.trees = std::move(*trees);
  if (out.trees.means() == DiskMeans::BtrfsGroup) {
    out.unusable = std::min(std::clamp(out.bytes / kMetadataShare, kLeastMetadata, kMostMetadata), out.bytes / 2);
    out.bytes -= out.unusable;
    if (auto limited = limit_all_trees(out, config.reserve); !limited) return Failure(limited.error());
  }
  log_info("disk limits", {{"directory", out.directory}, {"means", to_string(out.trees.means())}});
  return out;
}

Result<std::uint64_t> resolve_limit(std::int64_t wanted, const WritableDisk& disk, const char* setting) {
  if (wanted < 0) return disk.trees.limits() ? std::min(disk.bytes / kDefaultShare, kLargestDefault) : 0;
  if (wanted > 0 && !disk.trees.limits()) {
    return fail(Code::Unsupported, std::string(setting) + ": the file system of " + disk.directory +
                                       " has neither project quotas nor btrfs quota groups; see `sandboxd check`");
  }
  return static_cast<std::uint64_t>(wanted);
}

Result<SnapshotLimits> resolve_snapshot_limits(std::int64_t wanted, const std::string& state_directory) {
  struct statvfs found{};
  if (::statvfs(state_directory.c_str(), &found) < 0) return sys::from_errno("look at " + state_directory, errno);
  SnapshotLimits out;
  if (wanted == 0) return out;
  out.bytes = wanted > 0 ? static_cast<std::uint64_t>(wanted) : found.f_blocks * found.f_frsize / 2;
  if (found.f_files != 0) out.entries = found.f_files / 2;
  return out;
}

}  // namespace osb::sandboxd
