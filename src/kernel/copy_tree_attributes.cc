#include "kernel/copy_tree_attributes.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <fmt/format.h>

#include "sys/syscall.h"

namespace osb::kernel {

namespace {

constexpr std::string_view kOverlay = "trusted.overlay.";
constexpr std::size_t kMaxAttributes = 64 << 10;  // XATTR_LIST_MAX and XATTR_SIZE_MAX

// There are no *at calls for attributes before 6.13: an entry that cannot be opened goes through its directory.
struct AttributePath {
  explicit AttributePath(EntryRef entry) : entry(entry) {
    if (*entry.name != '\0') path = fmt::format("/proc/self/fd/{}/{}", entry.fd, entry.name);
  }
  ssize_t list(char* out, std::size_t size) const {
    return path.empty() ? ::flistxattr(entry.fd, out, size) : ::llistxattr(path.c_str(), out, size);
  }
  ssize_t get(const char* name, char* out, std::size_t size) const {
    return path.empty() ? ::fgetxattr(entry.fd, name, out, size) : ::lgetxattr(path.c_str(), name, out, size);
  }
  int set(const char* name, const char* value, std::size_t size) const {
    return path.empty() ? ::fsetxattr(entry.fd, name, value, size, 0) : ::lsetxattr(path.c_str(), name, value, size, 0);
  }
  EntryRef entry;
  std::string path;
};

Result<void> copy_attribute(const AttributePath& from, const AttributePath& to, const char* name, char* value) {
  const ssize_t size = from.get(name, value, kMaxAttributes);
  if (size < 0 && errno == ENODATA) return {};  // an ACL that says what the mode says
  if (size < 0) return sys::from_errno(fmt::format("read attribute {}", name), errno);
  if (to.set(name, value, static_cast<std::size_t>(size)) < 0) {
    return sys::from_errno(fmt::format("write attribute {}", name), errno);
  }
  return {};
}

}  // namespace

OverlayAttribute overlay_attribute(std::string_view name) {
  if (!name.starts_with(kOverlay)) return OverlayAttribute::Keep;
  name.remove_prefix(kOverlay.size());
  if (name.starts_with("overlay.")) return OverlayAttribute::Keep;
  static constexpr std::array<std::string_view, 2> kKeep{"opaque", "whiteout"};
  static constexpr std::array<std::string_view, 6> kDrop{"origin", "impure", "nlink", "upper", "uuid", "protattr"};
  if (std::ranges::find(kKeep, name) != kKeep.end()) return OverlayAttribute::Keep;
  if (std::ranges::find(kDrop, name) != kDrop.end()) return OverlayAttribute::Drop;
  return OverlayAttribute::Refuse;
}

Result<void> copy_attributes(EntryRef from_entry, EntryRef to_entry, bool overlay_upper, std::string& buffer) {
  const AttributePath from(from_entry);
  buffer.resize(2 * kMaxAttributes);
  const ssize_t listed = from.list(buffer.data(), kMaxAttributes);
  if (listed < 0 && errno == EOPNOTSUPP) return {};
  if (listed < 0) return sys::from_errno("list attributes", errno);
  if (listed == 0) return {};

  const AttributePath to(to_entry);
  const char* const end = buffer.data() + listed;
  for (const char* name = buffer.data(); name < end; name += std::string_view(name).size() + 1) {
    const auto fate = overlay_upper ? overlay_attribute(name) : OverlayAttribute::Keep;
    if (fate == OverlayAttribute::Drop) continue;
    if (fate == OverlayAttribute::Refuse) {
      return fail(Code::Unsupported, fmt::format("attribute {}: a part of this entry lies in another layer; "
                                                 "mount overlays with redirect_dir=off and metacopy=off",
                                                 name));
    }
    if (auto copied = copy_attribute(from, to, name, buffer.data() + kMaxAttributes); !copied) return copied;
  }
  return {};
}

Result<void> copy_metadata(EntryRef from, EntryRef to, const struct stat& st, bool overlay_upper, std::string& buffer) {
  const bool link = S_ISLNK(st.st_mode);
  const int at = *to.name == '\0' ? AT_EMPTY_PATH : AT_SYMLINK_NOFOLLOW;
  if (::fchownat(to.fd, to.name, st.st_uid, st.st_gid, at) < 0) return sys::from_errno("chown", errno);
  if (auto copied = copy_attributes(from, to, overlay_upper, buffer); !copied) return copied;
  const mode_t mode = st.st_mode & 07777;
  const int moded = link ? 0 : *to.name == '\0' ? ::fchmod(to.fd, mode) : ::fchmodat(to.fd, to.name, mode, 0);
  if (moded < 0) return sys::from_errno("chmod", errno);
  const timespec times[] = {st.st_atim, st.st_mtim};
  const int timed = *to.name == '\0' ? ::futimens(to.fd, times) : ::utimensat(to.fd, to.name, times, at);
  if (timed < 0) return sys::from_errno("set times", errno);
  return {};
}

Result<bool> is_merged_directory(int directory) {
  char value[1];
  const auto has = [&](const char* name) -> Result<bool> {
    if (::fgetxattr(directory, name, nullptr, 0) >= 0) return true;
    if (errno == ENODATA || errno == EOPNOTSUPP) return false;
    return sys::from_errno(fmt::format("read attribute {}", name), errno);
  };
  // "y" hides what is below; "x" only says that whiteouts may be attributes.
  if (::fgetxattr(directory, "trusted.overlay.opaque", value, sizeof value) == 1 && value[0] == 'y') return false;
  return has("trusted.overlay.origin");
}

}  // namespace osb::kernel
