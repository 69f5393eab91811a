#include "sandboxd/disk/disk_image.h"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/log.h"
#include "kernel/btrfs.h"
#include "kernel/loop_device.h"
#include "sandboxd/disk/make_file_system.h"
#include "sys/syscall.h"
#include "sys/text_file.h"

namespace osb::sandboxd {
namespace {

namespace fs = std::filesystem;

// Freed space goes back to the host's file system.
constexpr const char* kOptions = "discard=async";

Result<std::string> find_mkfs_btrfs() { return find_mkfs("mkfs.btrfs", "btrfs-progs"); }

// Mixed: data and metadata share all space. Otherwise a sandbox that writes one large file gets the last chunk for
// data, and its neighbours cannot make a directory although half of the disk is free.
Result<void> format(const std::string& file) {
  const auto program = find_mkfs_btrfs();
  if (!program) return Failure(program.error());
  return make_file_system(*program, {"--quiet", "--mixed", file});
}

bool kernel_has_btrfs() {
  const auto known = sys::read_text("/proc/filesystems");
  if (known && known->contains("\tbtrfs\n")) return true;
  return fs::exists("/sys/module/btrfs") || [] {
    std::error_code ignored;
    for (const auto& release : fs::directory_iterator("/lib/modules", ignored)) {
      const auto modules = sys::read_text((release.path() / "modules.dep").string(), 16 << 20);
      if (modules && modules->contains("/btrfs.ko")) return true;
    }
    return false;
  }();
}

}  // namespace

Result<void> refuse_hidden_state(const std::string& directory, const std::string& setting) {
  for (const char* name : {"/sandboxes", "/volumes"}) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(directory + name, error)) {
      if (entry.path().filename().string().starts_with('.')) continue;
      return fail(Code::Conflict, setting + ": " + entry.path().string() +
                                      " lies outside the image, where it would not be found; remove all sandboxes and "
                                      "named volumes first");
    }
  }
  return {};
}

bool DiskImage::wanted() const { return bytes != 0 || ::access(file().c_str(), F_OK) == 0; }

Result<void> DiskImage::probe() const {
  if (!kernel_has_btrfs()) return fail(Code::Unsupported, "this kernel has no btrfs");
  if (const auto program = find_mkfs_btrfs(); !program) return Failure(program.error());
  return kernel::probe_loop_devices();
}

Result<void> DiskImage::make() const {
  if (auto clear = refuse_hidden_state(state_directory, "[disk] image_bytes"); !clear) return clear;
  const std::string unfinished = file() + ".new";  // a crash leaves it; the next attempt begins anew
  {
    const auto made = sys::open_at(AT_FDCWD, unfinished, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (!made) return Failure(made.error());
    if (::ftruncate(made->get(), static_cast<off_t>(bytes)) < 0) return sys::from_errno("make " + unfinished, errno);
    if (auto formatted = format(unfinished); !formatted) return formatted;
    if (::fsync(made->get()) < 0) return sys::from_errno("sync " + unfinished, errno);
  }
  if (::rename(unfinished.c_str(), file().c_str()) < 0) return sys::from_errno("rename " + unfinished, errno);
  log_info("disk image made", {{"file", file()}, {"bytes", bytes}});
  return {};
}

Result<void> DiskImage::mount() const {
  if (::access(file().c_str(), F_OK) < 0) {
    if (auto made = make(); !made) return with_context("disk image", made.error());
  }
  const auto opened = sys::open_at(AT_FDCWD, file(), O_RDWR);
  if (!opened) return Failure(opened.error());
  struct stat about{};
  if (::fstat(opened->get(), &about) < 0) return sys::from_errno("stat " + file(), errno);
  const bool grows = static_cast<std::uint64_t>(about.st_size) < bytes;
  if (grows && ::ftruncate(opened->get(), static_cast<off_t>(bytes)) < 0)
    return sys::from_errno("grow " + file(), errno);
  const auto device = kernel::attach_loop_device(opened->get());
  if (!device) return with_context("disk image", device.error());
  if (::mkdir(mount_point().c_str(), 0700) < 0 && errno != EEXIST) {
    return sys::from_errno("make " + mount_point(), errno);
  }
  if (::mount(device->path.c_str(), mount_point().c_str(), "btrfs", MS_NOATIME, kOptions) < 0) {
    return sys::from_errno("mount " + file() + " by " + device->path + " at " + mount_point(), errno);
  }
  const auto root = sys::open_at(AT_FDCWD, mount_point(), O_RDONLY | O_DIRECTORY);
  if (!root) return Failure(root.error());
  if (::fchmod(root->get(), 0700) < 0) return sys::from_errno("chmod " + mount_point(), errno);
  if (grows) {
    if (auto grown = kernel::grow_btrfs(root->get()); !grown) return with_context(file(), grown.error());
  }
  if (auto enabled = kernel::enable_btrfs_quotas(root->get()); !enabled) return with_context(file(), enabled.error());
  return {};
}

}  // namespace osb::sandboxd
