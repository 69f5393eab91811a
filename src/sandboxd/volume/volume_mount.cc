#include "sandboxd/volume/volume_mount.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fmt/format.h>

#include "kernel/mount.h"
#include "sys/syscall.h"

namespace osb::sandboxd {

namespace {

constexpr std::uint64_t kAlways = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;

}  // namespace

Result<UniqueFd> clone_volume(int source, int userns, bool read_only, const std::string& what) {
  auto mount = kernel::clone_mount(source, "", true);
  if (!mount) return with_context(what, mount.error());
  mount_attr attributes{};
  attributes.attr_set = kAlways | (read_only ? MOUNT_ATTR_RDONLY : 0) | (userns >= 0 ? MOUNT_ATTR_IDMAP : 0);
  attributes.propagation = MS_PRIVATE;
  attributes.userns_fd = userns >= 0 ? static_cast<std::uint64_t>(userns) : 0;
  // One call for the whole tree: it is done everywhere or nowhere.
  if (::syscall(SYS_mount_setattr, mount->get(), "", AT_EMPTY_PATH | AT_RECURSIVE, &attributes, sizeof attributes) ==
      0) {
    return mount;
  }
  // EPERM: the source is mapped already.
  if (userns < 0 || (errno != EINVAL && errno != EPERM)) return sys::from_errno("mount_setattr " + what, errno);
  Error error(
      Code::Unsupported,
      fmt::format("{}: its file system, or one mounted below it, cannot map ids to a sandbox's; for a host path, "
                  "[sandbox] host_ids = \"foreign\" mounts it without",
                  what),
      errno);
  error.reason = "VOLUME::UNSUPPORTED_BACKEND";
  return Failure(std::move(error));
}

Result<UniqueFd> make_tmpfs(std::uint64_t bytes, std::uint32_t owner, bool read_only) {
  auto context = kernel::FsContext::open("tmpfs");
  if (!context) return Failure(context.error());
  const std::pair<const char*, std::string> options[] = {{"size", std::to_string(bytes)},
                                                         {"mode", "1777"},
                                                         {"uid", std::to_string(owner)},
                                                         {"gid", std::to_string(owner)}};
  for (const auto& [key, value] : options) {
    if (auto set = context->set(key, value); !set) return Failure(set.error());
  }
  return context->mount(kAlways | (read_only ? MOUNT_ATTR_RDONLY : 0));
}

}  // namespace osb::sandboxd
