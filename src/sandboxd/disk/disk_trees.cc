#include "sandboxd/disk/disk_trees.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/log.h"
#include "kernel/btrfs.h"
#include "kernel/project_quota.h"
#include "sandboxd/disk/image_tree.h"
#include "sys/remove_tree.h"
#include "sys/syscall.h"

namespace osb::sandboxd {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTree = "tree";
constexpr std::uint64_t kBytesPerInode = 16 << 10;  // as mkfs.ext4 makes them
constexpr std::uint64_t kFewestInodes = 10'000;

kernel::ProjectLimit project_limit(std::uint64_t bytes) {
  return {bytes, bytes == 0 ? 0 : std::max(bytes / kBytesPerInode, kFewestInodes)};
}

Result<UniqueFd> open_directory(int parent, const std::string& name) {
  return sys::open_at(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
}

Result<void> make_project(const std::string& path, std::uint64_t bytes) {
  const auto tree = open_directory(AT_FDCWD, path);
  if (!tree) return Failure(tree.error());
  const auto project = kernel::unused_project(tree->get());
  if (!project) return Failure(project.error());
  if (auto set = kernel::limit_project(tree->get(), *project, project_limit(bytes)); !set) return set;
  return kernel::join_project(tree->get(), *project);
}

// Of the tree `name`, or of the tree in it.
std::uint32_t project_of(int parent, const std::string& name) {
  const auto directory = open_directory(parent, name);
  if (!directory) return 0;
  if (const std::uint32_t project = kernel::project_of(directory->get()); project != 0) return project;
  const auto tree = open_directory(directory->get(), kTree);
  return tree ? kernel::project_of(tree->get()) : 0;
}

void remove_subvolumes(int parent, const std::string& name) {
  Result<void> removed;
  if (kernel::is_subvolume(parent, name)) {
    removed = kernel::remove_subvolume(parent, name);
  } else if (const auto directory = open_directory(parent, name);
             directory && kernel::is_subvolume(directory->get(), kTree)) {
    removed = kernel::remove_subvolume(directory->get(), kTree);
  }
  // A subvolume can be removed as any other directory is, file by file.
  if (!removed) log_warn("subvolume is removed slowly", {{"name", name}, {"error", removed.error().message}});
}

// An image has a size, also where there is no limit: then it is the disk's.
Result<std::uint64_t> size_of_image(const std::string& templates, std::uint64_t bytes) {
  if (bytes != 0) return bytes;
  struct statvfs found{};
  if (::statvfs(templates.c_str(), &found) < 0) return sys::from_errno("look at " + templates, errno);
  return std::uint64_t{found.f_blocks} * found.f_frsize;
}

}  // namespace

std::string_view to_string(DiskMeans means) {
  switch (means) {
    case DiskMeans::None:
      return "none";
    case DiskMeans::ProjectQuota:
      return "project quota";
    case DiskMeans::BtrfsGroup:
      return "btrfs quota group";
    case DiskMeans::ImageFile:
      return "image files";
  }
  return "";
}

const char* DiskTrees::below_directory() const {
  return means_ == DiskMeans::None ? "" : means_ == DiskMeans::ImageFile ? "/tree/files" : "/tree";
}

Result<void> DiskTrees::make(const std::string& path, mode_t mode, std::uint64_t bytes) const {
  if (means_ == DiskMeans::ImageFile) {
    const auto size = size_of_image(templates_, bytes);
    if (!size) return Failure(size.error());
    return make_image_tree(templates_, path, mode, *size);
  }
  if (means_ == DiskMeans::BtrfsGroup) {
    const auto parent = open_directory(AT_FDCWD, fs::path(path).parent_path());
    if (!parent) return Failure(parent.error());
    if (auto made = kernel::make_subvolume(parent->get(), fs::path(path).filename(), kAllTrees, bytes); !made) {
      return made;
    }
    if (::chmod(path.c_str(), mode) < 0) return sys::from_errno("chmod " + path, errno);
    return {};
  }
  if (::mkdir(path.c_str(), mode) < 0) return sys::from_errno("create directory " + path, errno);
  if (means_ == DiskMeans::None) return {};
  auto made = make_project(path, bytes);
  if (!made) (void)::rmdir(path.c_str());
  return made;
}

Result<void> DiskTrees::set_limit(const std::string& path, std::uint64_t bytes) const {
  if (means_ == DiskMeans::None) {
    return fail(Code::Unsupported,
                "the file system of " + path + " has no limits for directories; see `sandboxd check`");
  }
  if (means_ == DiskMeans::ImageFile) {
    const auto size = size_of_image(templates_, bytes);
    return size ? limit_image_tree(templates_, path, *size) : Failure(size.error());
  }
  const auto tree = open_directory(AT_FDCWD, path);
  if (!tree) return Failure(tree.error());
  if (means_ == DiskMeans::BtrfsGroup) return kernel::limit_subvolume(tree->get(), bytes);
  const std::uint32_t project = kernel::project_of(tree->get());
  if (project == 0) return fail(Code::Internal, path + " belongs to no project");
  return kernel::limit_project(tree->get(), project, project_limit(bytes));
}

Result<void> DiskTrees::attach(const std::string& path) const {
  return means_ == DiskMeans::ImageFile ? attach_image_tree(path) : Result<void>();
}

Result<void> DiskTrees::sync(const std::string& path) const {
  return means_ == DiskMeans::ImageFile ? sync_image_tree(path) : Result<void>();
}

void DiskTrees::fit(const std::string& directory) const {
  if (means_ == DiskMeans::ImageFile) {
    if (auto attached = attach(directory + below_directory()); !attached) {
      log_warn("sandbox's files are not found", {{"directory", directory}, {"error", attached.error().message}});
    }
    return;
  }
  const std::string other = directory + (limits() ? "/" : "/tree/"), wanted = directory + below_directory() + "/";
  std::error_code error;
  if (!fs::exists(other + "upper", error) || fs::exists(wanted + "upper", error)) return;
  fs::create_directory(wanted, error);
  fs::permissions(wanted, fs::perms::owner_all, error);
  for (const char* name : {"upper", "work", "run"}) {
    fs::rename(other + name, wanted + name, error);
    if (error) log_warn("sandbox's files stay", {{"path", other + name}, {"error", error.message()}});
  }
}

Result<void> DiskTrees::remove(int parent, const std::string& name) const {
  const std::uint32_t project = means_ == DiskMeans::ProjectQuota ? project_of(parent, name) : 0;
  if (means_ == DiskMeans::BtrfsGroup) remove_subvolumes(parent, name);
  if (means_ == DiskMeans::ImageFile) detach_image_tree(parent, name);
  if (auto removed = sys::remove_tree(parent, name); !removed || project == 0) return removed;
  if (auto freed = kernel::limit_project(parent, project, {}); !freed) {
    log_warn("disk limit left", {{"project", project}, {"error", freed.error().message}});
  }
  return {};
}

DiskMeans find_disk_means(const std::string& directory) {
  const auto opened = sys::open_at(AT_FDCWD, directory, O_RDONLY | O_DIRECTORY);
  if (!opened) return DiskMeans::None;
  if (kernel::has_project_quotas(opened->get())) return DiskMeans::ProjectQuota;
  if (!kernel::is_btrfs(opened->get()) || !kernel::make_btrfs_group(opened->get(), kAllTrees)) return DiskMeans::None;
  return DiskMeans::BtrfsGroup;
}

}  // namespace osb::sandboxd
