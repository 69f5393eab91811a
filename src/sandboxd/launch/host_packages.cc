#include "sandboxd/launch/host_packages.h"

#include <filesystem>
#include <linux/magic.h>
#include <optional>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "base/log.h"
#include "sandboxd/launch/host_copy.h"

namespace osb::sandboxd {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDatabase = "/var/lib/dpkg";
constexpr std::uint64_t kRoomForCopy = 256 << 20;  // a large database takes 60 MiB

// Not auth.conf and auth.conf.d, which are for passwords.
constexpr const char* kSettings[] = {
    "/etc/apt/sources.list",
    "/etc/apt/sources.list.d",
    "/etc/apt/trusted.gpg",
    "/etc/apt/trusted.gpg.d",
    "/etc/apt/keyrings",
    "/etc/apt/apt.conf",
    "/etc/apt/apt.conf.d",
    "/etc/apt/preferences",
    "/etc/apt/preferences.d",
    "/etc/debconf.conf",
    "/etc/dpkg",
};

constexpr const char* kEmpty[] = {
    "/var/lib/dpkg/updates",
    "/var/lib/dpkg/parts",
    "/var/lib/apt",
    "/var/cache/apt",
    "/var/cache/debconf",
    "/var/log/apt",
    "/var/lib/apt/lists",
    "/var/lib/apt/lists/partial",
    "/var/cache/apt/archives",
    "/var/cache/apt/archives/partial",
};

// Left out: the state before the last change, updates under way, checksums that only a check of the installation reads,
// and owners of files that the administrator of the host has chosen, who do not exist inside.
bool is_needed(const fs::path& file) {
  const std::string name = file.filename().string();
  return !name.ends_with(".md5sums") && !name.ends_with("-old") && name != "available" && name != "updates" &&
         name != "parts" && name != "statoverride";
}

// The same files on disk where that costs nothing. On an overlay (a host that is a container itself) a second name for
// a file would copy the file first, on the host's side. Nothing: `root` has no room to spare for a copy.
std::optional<Take> quickest_way(const std::string& root) {
  struct stat ours{}, theirs{};
  struct statfs info{}, room{};
  if (::stat(root.c_str(), &ours) == 0 && ::stat(kDatabase, &theirs) == 0 && ours.st_dev == theirs.st_dev &&
      ::statfs(kDatabase, &info) == 0 && info.f_type != OVERLAYFS_SUPER_MAGIC) {
    return Take::Share;
  }
  if (::statfs(root.c_str(), &room) != 0) return std::nullopt;
  const std::uint64_t bytes = static_cast<std::uint64_t>(room.f_bavail) * static_cast<std::uint64_t>(room.f_bsize);
  if (bytes < kRoomForCopy) return std::nullopt;
  return Take::Copy;
}

Result<void> copy_database(const fs::path& from, const std::string& to, Take how) {
  if (auto made = make_directory(to, 0755); !made) return made;
  std::error_code failed;
  for (fs::directory_iterator it(from, failed), end; !failed && it != end; it.increment(failed)) {
    const fs::path& entry = it->path();
    if (!is_needed(entry)) continue;
    const std::string there = to + "/" + entry.filename().string();
    const bool info = entry.filename() == "info" && it->is_directory(failed);
    if (auto copied = info ? copy_database(entry, there, how) : copy_from_host(entry, there, how); !copied)
      return copied;
  }
  if (failed) return fail(Code::Internal, "read " + from.string() + ": " + failed.message());
  return {};
}

}  // namespace

Result<void> add_package_database(const std::string& root) {
  std::error_code ignored;
  if (!fs::exists(std::string(kDatabase) + "/status", ignored)) return {};
  const auto how = quickest_way(root);
  if (!how) {
    log_warn("no room for the package database of image host: apt and dpkg do not work in it", {{"directory", root}});
    return {};
  }
  if (auto made = make_directory(root + "/etc/apt", 0755); !made) return made;
  for (const char* path : kSettings) {
    if (auto copied = copy_from_host(path, root + path, Take::WithoutCredentials); !copied) return copied;
  }
  if (auto copied = copy_database(kDatabase, root + kDatabase, *how); !copied) return copied;
  for (const char* path : kEmpty) {
    if (auto made = make_directory(root + path, 0755); !made) return made;
  }
  return {};
}

}  // namespace osb::sandboxd
