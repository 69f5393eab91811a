#include "sandboxd/disk/image_tree.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/id.h"
#include "base/log.h"
#include "base/parse_number.h"
#include "kernel/copy_tree.h"
#include "kernel/loop_device.h"
#include "sandboxd/disk/make_file_system.h"
#include "sys/remove_tree.h"
#include "sys/staged_file.h"
#include "sys/syscall.h"
#include "sys/text_file.h"

namespace osb::sandboxd {
namespace {

namespace fs = std::filesystem;

constexpr const char* kImage = "image";
constexpr const char* kLimit = "limit";
constexpr std::uint64_t kBlock = 4096;
constexpr std::uint64_t kBytesPerInode = 16 << 10, kFewestInodes = 10'000, kInodeBytes = 256;
constexpr std::uint64_t kJournal = 4 << 20;                // the smallest that ext4 takes
constexpr std::uint64_t kOther = 16 << 20, kShare = 1024;  // bitmaps, group descriptors, blocks that ext4 keeps
// Freed blocks go back to the host. The kernel does not fill tables of inodes with zeros in the background: an image
// would grow by them.
constexpr const char* kOptions = "discard,noinit_itable";

std::string tree_of(const std::string& files) { return fs::path(files).parent_path(); }

std::uint64_t inodes_for(std::uint64_t bytes) { return std::max(bytes / kBytesPerInode, kFewestInodes); }

// The size of a file system in which `bytes` can be used.
std::uint64_t image_size(std::uint64_t bytes) {
  const std::uint64_t size = bytes + inodes_for(bytes) * kInodeBytes + kJournal + kOther + bytes / kShare;
  return (size + kOther - 1) / kOther * kOther;
}

Result<void> format(const std::string& image, std::uint64_t bytes) {
  const auto program = find_mkfs("mkfs.ext4", "e2fsprogs");
  if (!program) return Failure(program.error());
  return make_file_system(*program, {"-q", "-F", "-O", "^resize_inode", "-b", std::to_string(kBlock), "-m", "0", "-N",
                                     std::to_string(inodes_for(bytes)), "-J", "size=" + std::to_string(kJournal >> 20),
                                     "-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard", image});
}

// The directory of a formatted image of this size. Made on first use; several threads may make it at a time.
Result<std::string> template_for(const std::string& templates, std::uint64_t bytes) {
  std::string path = templates + "/" + std::to_string(bytes);
  if (::access(path.c_str(), F_OK) == 0) return path;
  const std::string unfinished = templates + "/." + new_hex_id();
  if (::mkdir(unfinished.c_str(), 0700) < 0) return sys::from_errno("make " + unfinished, errno);
  const std::string image = unfinished + "/" + kImage;
  const auto make = [&]() -> Result<void> {
    const auto made = sys::open_at(AT_FDCWD, image, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (!made) return Failure(made.error());
    if (::ftruncate(made->get(), static_cast<off_t>(image_size(bytes))) < 0) {
      return sys::from_errno("make " + image, errno);
    }
    return format(image, bytes);
  };
  auto made = make();
  if (made && ::renameat2(AT_FDCWD, unfinished.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) < 0 &&
      errno != EEXIST) {
    made = sys::from_errno("rename " + unfinished, errno);
  }
  if (::access(unfinished.c_str(), F_OK) == 0) {
    if (auto removed = sys::remove_tree(AT_FDCWD, unfinished); !removed) {
      log_warn("template of a disk left", {{"path", unfinished}, {"error", removed.error().message}});
    }
  }
  if (!made) return Failure(made.error());
  return path;
}

Result<UniqueFd> open_directory(const std::string& path) {
  return sys::open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
}

Result<void> copy_files(const std::string& from, const std::string& to) {
  const auto source = open_directory(from);
  if (!source) return Failure(source.error());
  const auto target = open_directory(to);
  if (!target) return Failure(target.error());
  const auto copied = kernel::copy_tree(source->get(), target->get(), {.threads = 1});
  return copied ? Result<void>() : Failure(copied.error());
}

// A file of a living sandbox has a loop device already.
Result<kernel::LoopDevice> loop_device_of(const std::string& files, bool fresh) {
  const auto image = sys::open_at(AT_FDCWD, tree_of(files) + "/" + kImage, O_RDWR | O_NOFOLLOW);
  if (!image) return Failure(image.error());
  return fresh ? kernel::attach_new_loop_device(image->get()) : kernel::attach_loop_device(image->get());
}

Result<void> mount_image(const std::string& files, bool fresh) {
  const auto device = loop_device_of(files, fresh);
  if (!device) return Failure(device.error());
  if (::mount(device->path.c_str(), files.c_str(), "ext4", MS_NOATIME, kOptions) < 0) {
    return sys::from_errno("mount " + device->path + " at " + files, errno);
  }
  return {};
}

// ext4 gives blocks away only while more than so many are free, to root as well.
Result<void> keep_blocks(const std::string& files, std::uint64_t blocks) {
  struct stat about{};
  if (::stat(files.c_str(), &about) < 0) return sys::from_errno("look at " + files, errno);
  std::error_code error;
  const fs::path device =
      fs::canonical(fmt::format("/sys/dev/block/{}:{}", major(about.st_dev), minor(about.st_dev)), error);
  if (error) return sys::from_errno("find the device of " + files, error.value());
  return sys::write_text("/sys/fs/ext4/" + device.filename().string() + "/reserved_clusters", std::to_string(blocks));
}

Result<std::uint64_t> blocks_of(const std::string& files) {
  struct statvfs found{};
  if (::statvfs(files.c_str(), &found) < 0) return sys::from_errno("look at " + files, errno);
  return std::uint64_t{found.f_blocks};
}

// At most as much as the file system has.
Result<void> apply_limit(const std::string& files, std::uint64_t bytes) {
  const auto blocks = blocks_of(files);
  if (!blocks) return Failure(blocks.error());
  const std::uint64_t wanted = bytes / kBlock;
  return keep_blocks(files, *blocks > wanted ? *blocks - wanted : 0);
}

Result<void> note_limit(const std::string& tree, std::uint64_t bytes) {
  const auto directory = open_directory(tree);
  if (!directory) return Failure(directory.error());
  auto file = sys::StagedFile::create(directory->get());
  if (!file) return Failure(file.error());
  if (auto written = file->write(std::to_string(bytes)); !written) return written;
  return file->place(directory->get(), kLimit);
}

// A larger image with the same files, in the place of the old one. ext4 can grow, but the kernel allows that to holders
// of CAP_SYS_RESOURCE only.
Result<void> replace_image(const std::string& templates, const std::string& files, std::uint64_t bytes) {
  const std::string tree = tree_of(files), next = tree + "/next", next_files = next + "/files";
  const auto replace = [&]() -> Result<void> {
    if (auto made = make_image_tree(templates, next_files, 0700, bytes); !made) return made;
    if (auto copied = copy_files(files, next_files); !copied) return copied;
    if (::umount2(files.c_str(), UMOUNT_NOFOLLOW) < 0) return sys::from_errno("unmount " + files, errno);
    for (const char* name : {kImage, kLimit}) {
      if (::rename((next + "/" + name).c_str(), (tree + "/" + name).c_str()) < 0) {
        return sys::from_errno("rename " + next + "/" + name, errno);
      }
    }
    if (::mount(next_files.c_str(), files.c_str(), nullptr, MS_MOVE, nullptr) < 0) {
      return sys::from_errno("move the mount of " + next_files, errno);
    }
    return {};
  };
  auto replaced = replace();
  if (!replaced) (void)::umount2(next_files.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW);
  if (auto removed = sys::remove_tree(AT_FDCWD, next); replaced && !removed) return removed;
  return replaced;
}

bool is_mounted(const std::string& files) {
  struct stat inner{}, outer{};
  return ::stat(files.c_str(), &inner) == 0 && ::stat(tree_of(files).c_str(), &outer) == 0 &&
         inner.st_dev != outer.st_dev;
}

}  // namespace

Result<void> probe_image_trees() {
  if (const auto program = find_mkfs("mkfs.ext4", "e2fsprogs"); !program) return Failure(program.error());
  return kernel::probe_loop_devices();
}

Result<void> make_image_tree(const std::string& templates, const std::string& files, mode_t mode, std::uint64_t bytes) {
  const std::string tree = tree_of(files);
  if (::mkdir(tree.c_str(), 0700) < 0) return sys::from_errno("create directory " + tree, errno);
  const auto formatted = template_for(templates, bytes);
  if (!formatted) return with_context("disk image", formatted.error());
  if (auto copied = copy_files(*formatted, tree); !copied) return with_context("disk image", copied.error());
  if (auto noted = note_limit(tree, bytes); !noted) return noted;
  if (::mkdir(files.c_str(), 0700) < 0) return sys::from_errno("create directory " + files, errno);
  if (auto mounted = mount_image(files, true); !mounted) return mounted;
  if (auto limited = apply_limit(files, bytes); !limited) return limited;
  (void)::rmdir((files + "/lost+found").c_str());  // sandboxes see the root of a volume
  if (::chmod(files.c_str(), mode) < 0) return sys::from_errno("chmod " + files, errno);
  return {};
}

Result<void> attach_image_tree(const std::string& files) {
  if (is_mounted(files)) return {};
  if (auto mounted = mount_image(files, false); !mounted) return mounted;
  const std::string limit = tree_of(files) + "/" + kLimit;
  const auto text = sys::read_text(limit);
  if (!text) return Failure(text.error());
  const auto bytes = parse_number<std::uint64_t>(*text);
  if (!bytes) return fail(Code::Internal, limit + " holds no number");
  return apply_limit(files, *bytes);
}

Result<void> limit_image_tree(const std::string& templates, const std::string& files, std::uint64_t bytes) {
  const auto blocks = blocks_of(files);
  if (!blocks) return Failure(blocks.error());
  if (*blocks < bytes / kBlock) return replace_image(templates, files, bytes);
  if (auto limited = apply_limit(files, bytes); !limited) return limited;
  return note_limit(tree_of(files), bytes);
}

Result<void> sync_image_tree(const std::string& files) {
  const auto root = open_directory(files);
  if (!root) return Failure(root.error());
  if (::syncfs(root->get()) < 0) return sys::from_errno("sync " + files, errno);
  const std::string tree = tree_of(files);
  for (const std::string& path : {tree + "/" + kImage, tree + "/" + kLimit, tree}) {
    const auto opened = sys::open_at(AT_FDCWD, path, O_RDONLY | O_NOFOLLOW);
    if (!opened) return Failure(opened.error());
    if (::fsync(opened->get()) < 0) return sys::from_errno("sync " + path, errno);
  }
  return {};
}

void detach_image_tree(int parent, const std::string& name) {
  for (const char* files : {"/files", "/tree/files"}) {
    const std::string path = fmt::format("/proc/self/fd/{}/{}{}", parent, name, files);
    if (::umount2(path.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) < 0 && errno != EINVAL && errno != ENOENT) {
      log_warn("disk image stays mounted", {{"name", name}, {"error", std::strerror(errno)}});
    }
  }
}

}  // namespace osb::sandboxd
