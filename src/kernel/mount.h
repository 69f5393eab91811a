#pragma once

#include <cstdint>
#include <string>
#include <sys/mount.h>

#include "base/error.h"
#include "base/unique_fd.h"

namespace osb::kernel {

// The kernel's mount API by descriptor. A detached mount is one that no mount namespace shows: it can be prepared by
// one process and attached by another, and goes with its last descriptor.

// open_tree: a detached copy of the mount that holds `path` (relative to `dir`; empty: `dir` itself), with `path` as
// its root. Must be called in the mount namespace that has it.
Result<UniqueFd> clone_mount(int dir, const std::string& path, bool recursive = false);

// mount_setattr: adds MOUNT_ATTR_RDONLY, _NOSUID, _NODEV, _NOEXEC.
Result<void> set_mount_attributes(int mount, std::uint64_t attributes, bool recursive = false);

// mount_setattr: ids on disk are seen through the map of `userns`, in both directions. `mount` must be detached and
// not yet mapped; `what` names it in errors. Code::Unsupported when its file system cannot do that.
Result<void> map_mount_ids(int mount, int userns, const std::string& what);

// A file system being configured (fsopen).
class FsContext {
 public:
  static Result<FsContext> open(const std::string& type);

  Result<void> set(const char* key, const std::string& value);  // up to 255 bytes
  // Creates it and returns it as a detached mount with these MOUNT_ATTR_ flags. The error contains the kernel's own
  // message about a failure.
  Result<UniqueFd> mount(std::uint64_t attributes);

 private:
  FsContext(UniqueFd fd, std::string type) : fd_(std::move(fd)), type_(std::move(type)) {}
  Failure failed(const std::string& what, int e) const;

  UniqueFd fd_;
  std::string type_;
};

// Files that the calling thread makes belong to this user and group while this lives; its capabilities stay. Concerns
// this thread, and children it makes meanwhile, only.
class FileOwner {
 public:
  explicit FileOwner(std::uint32_t id) : FileOwner(id, id) {}
  FileOwner(std::uint32_t uid, std::uint32_t gid);
  ~FileOwner();
  FileOwner(const FileOwner&) = delete;
  FileOwner& operator=(const FileOwner&) = delete;

 private:
  std::uint32_t uid_, gid_;
  int securebits_;
};

}  // namespace osb::kernel
