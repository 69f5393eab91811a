#include "kernel/loop_device.h"

#include <cerrno>
#include <fcntl.h>
#include <linux/loop.h>
#include <linux/major.h>
#include <optional>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "sys/syscall.h"

namespace osb::kernel {
namespace {

constexpr const char* kControl = "/dev/loop-control";
constexpr unsigned kMiscMajor = 10, kControlMinor = 237;
// Another process may take the free device first; each time that happens one of us is done.
constexpr int kAttempts = 1000;

std::string node_of(int number) { return "/dev/loop" + std::to_string(number); }

// A /dev without devtmpfs has a few nodes, or none.
void make_node(const std::string& path, mode_t type, dev_t device) {
  if (::mknod(path.c_str(), type | 0600, device) < 0) return;  // there already, or its use says why not
}

Result<UniqueFd> open_control() {
  make_node(kControl, S_IFCHR, makedev(kMiscMajor, kControlMinor));
  auto control = sys::open_at(AT_FDCWD, kControl, O_RDWR);
  if (control) return control;
  return fail(Code::Unsupported,
              "this kernel has no loop devices (" + control.error().message + "): load the loop module");
}

// One that was free a moment ago. The kernel refuses to open one that another process is just giving up.
Result<LoopDevice> open_free_device(int control) {
  for (int attempt = 0;; ++attempt) {
    const int free = ::ioctl(control, LOOP_CTL_GET_FREE);
    if (free < 0) return sys::from_errno("find a free loop device", errno);
    const std::string path = node_of(free);
    make_node(path, S_IFBLK, makedev(LOOP_MAJOR, static_cast<unsigned>(free)));
    UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (fd) return LoopDevice{path, std::move(fd)};
    if ((errno != ENXIO && errno != EBUSY) || attempt == kAttempts) return sys::from_errno("open " + path, errno);
  }
}

bool has_file(int device, const struct stat& file) {
  loop_info64 info{};
  return ::ioctl(device, LOOP_GET_STATUS64, &info) == 0 && info.lo_inode == file.st_ino &&
         info.lo_device == file.st_dev;
}

std::optional<LoopDevice> find_device(const struct stat& file, int end) {
  for (int number = 0; number < end; ++number) {
    auto device = sys::open_at(AT_FDCWD, node_of(number), O_RDONLY);  // kernels may refuse to write to mounted ones
    if (!device || !has_file(device->get(), file)) continue;
    (void)::ioctl(device->get(), LOOP_SET_CAPACITY, 0);
    return LoopDevice{node_of(number), std::move(*device)};
  }
  return std::nullopt;
}

// 0 or an errno. Without the page cache of the file where its file system can: the device has one of its own.
int configure(int device, int file) {
  for (const std::uint32_t direct : {std::uint32_t{LO_FLAGS_DIRECT_IO}, std::uint32_t{0}}) {
    loop_config config{};
    config.fd = static_cast<__u32>(file);
    config.block_size = 4096;
    config.info.lo_flags = LO_FLAGS_AUTOCLEAR | direct;
    if (::ioctl(device, LOOP_CONFIGURE, &config) == 0) return 0;
    if (errno != EINVAL) return errno;
  }
  return EINVAL;
}

}  // namespace

Result<LoopDevice> attach_loop_device(int file) {
  struct stat about{};
  if (::fstat(file, &about) < 0) return sys::from_errno("look at a loop device's file", errno);
  const auto control = open_control();
  if (!control) return Failure(control.error());
  const int free = ::ioctl(control->get(), LOOP_CTL_GET_FREE);
  if (free < 0) return sys::from_errno("find a free loop device", errno);
  // All below the first free one are in use; those above may be as well.
  constexpr int kMore = 256;
  if (auto found = find_device(about, free + kMore)) return std::move(*found);
  return attach_new_loop_device(file);
}

Result<LoopDevice> attach_new_loop_device(int file) {
  const auto control = open_control();
  if (!control) return Failure(control.error());
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    auto device = open_free_device(control->get());
    if (!device) return Failure(device.error());
    const int failed = configure(device->fd.get(), file);
    if (failed == 0) return device;
    if (failed != EBUSY && failed != ENXIO) return sys::from_errno("set up " + device->path, failed);
  }
  return fail(Code::Unavailable, "no loop device came free");
}

Result<void> probe_loop_devices() {
  const auto control = open_control();
  if (!control) return Failure(control.error());
  const auto device = open_free_device(control->get());
  return device ? Result<void>() : Failure(device.error());
}

}  // namespace osb::kernel
