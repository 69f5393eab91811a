#pragma once

#include <cerrno>
#include <cstdlib>
#include <dirent.h>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <map>
#include <sched.h>
#include <set>
#include <string>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/unique_fd.h"

// Shared by tests of tree copies and of code built on them.
namespace osb::testing {

inline UniqueFd open_directory(const std::filesystem::path& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  EXPECT_TRUE(fd) << path << ": " << std::generic_category().message(errno);
  return fd;
}

inline void write_text_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  ASSERT_TRUE(out) << path;
}

inline void set_attribute(const std::filesystem::path& path, const char* name, const std::string& value) {
  ASSERT_EQ(::lsetxattr(path.c_str(), name, value.data(), value.size(), 0), 0)
      << path << " " << name << ": " << std::generic_category().message(errno);
}

// cap_net_raw+ep, as setcap writes it.
inline const std::string kFileCapability(
    "\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", 20);

inline void make_socket(const std::filesystem::path& path) {
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = path.string();
  ASSERT_LT(name.size(), sizeof address.sun_path);
  name.copy(address.sun_path, name.size());
  ASSERT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0) << path;
}

// No other process sees the mounts of this test process, and they go with it.
inline void use_private_mounts() {
  ASSERT_EQ(::unshare(CLONE_NEWNS), 0);
  ASSERT_EQ(::mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
}

class ScopedMount {
 public:
  ScopedMount(const std::string& source, const std::filesystem::path& target, const char* type, unsigned long flags,
              const std::string& options)
      : target_(target) {
    std::filesystem::create_directories(target);
    if (::mount(source.c_str(), target.c_str(), type, flags, options.c_str()) < 0) {
      ADD_FAILURE() << "mount " << target << " " << options << ": " << std::generic_category().message(errno);
    }
  }
  ScopedMount(const ScopedMount&) = delete;
  ScopedMount& operator=(const ScopedMount&) = delete;
  ~ScopedMount() { ::umount2(target_.c_str(), MNT_DETACH); }
  const std::filesystem::path& path() const { return target_; }

 private:
  std::filesystem::path target_;
};

// Each entry of a tree and everything about it that a copy must keep, as lines: two trees are alike when the maps are.
// Inode numbers show as the group of names that share one.
class TreeDump {
 public:
  bool with_sockets = true;
  bool with_attributes = true;
  std::set<std::string> without;  // attributes that differ on purpose

  std::map<std::string, std::string> of(const std::filesystem::path& root) {
    lines_.clear();
    first_name_.clear();
    visit(root, ".");
    return lines_;
  }

 private:
  void visit(const std::filesystem::path& root, const std::string& name) {
    const std::filesystem::path path = root / name;
    struct stat st;
    ASSERT_EQ(::lstat(path.c_str(), &st), 0) << path << ": " << std::generic_category().message(errno);
    if (S_ISSOCK(st.st_mode) && !with_sockets) return;
    std::string line =
        fmt::format("{:o} {}:{} m={}.{:09}", st.st_mode, st.st_uid, st.st_gid, st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
    if (!S_ISDIR(st.st_mode)) {
      // An overlay keeps one more name of its shared whiteout in its work directory.
      if (!S_ISCHR(st.st_mode)) line += fmt::format(" n={}", st.st_nlink);
      // Looking at a link's target changes when it was last looked at.
      if (!S_ISLNK(st.st_mode)) line += fmt::format(" a={}.{:09}", st.st_atim.tv_sec, st.st_atim.tv_nsec);
      const auto first = first_name_.emplace(std::pair(st.st_dev, st.st_ino), name).first->second;
      if (first != name) line += " = " + first;
    }
    if (S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode)) line += fmt::format(" rdev={}", st.st_rdev);
    if (S_ISLNK(st.st_mode)) line += " -> " + std::filesystem::read_symlink(path).string();
    if (S_ISREG(st.st_mode)) line += fmt::format(" size={} sum={}", st.st_size, sum(path));
    if (with_attributes) line += attributes(path);
    lines_[name] = line;
    if (!S_ISDIR(st.st_mode)) return;
    std::set<std::string> names;  // in order, so that the first of several links is the same one everywhere
    for (const auto& entry : std::filesystem::directory_iterator(path)) names.insert(entry.path().filename());
    for (const std::string& below : names) visit(root, name == "." ? below : name + "/" + below);
  }

  static std::size_t sum(const std::filesystem::path& path) {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NOATIME | O_CLOEXEC));
    std::size_t out = 0;
    std::string block(1 << 20, '\0');
    for (ssize_t got; (got = ::read(fd.get(), block.data(), block.size())) > 0;) {
      out = out * 31 + std::hash<std::string_view>()(std::string_view(block).substr(0, static_cast<std::size_t>(got)));
    }
    return out;
  }

  std::string attributes(const std::filesystem::path& path) {
    char list[4096];
    const ssize_t size = ::llistxattr(path.c_str(), list, sizeof list);
    std::map<std::string, std::string> found;
    for (ssize_t at = 0; at < size; at += static_cast<ssize_t>(std::string_view(list + at).size()) + 1) {
      if (without.contains(list + at)) continue;
      char value[4096];
      const ssize_t length = ::lgetxattr(path.c_str(), list + at, value, sizeof value);
      for (ssize_t i = 0; i < length; ++i)
        found[list + at] += fmt::format("{:02x}", static_cast<unsigned char>(value[i]));
    }
    std::string out;
    for (const auto& [name, value] : found) out += fmt::format(" {}={}", name, value);
    return out;
  }

  std::map<std::string, std::string> lines_;
  std::map<std::pair<dev_t, ino_t>, std::string> first_name_;
};

// The differences, as lines; empty when there are none.
inline std::string difference(const std::map<std::string, std::string>& want,
                              const std::map<std::string, std::string>& got) {
  std::string out;
  for (const auto& [name, line] : want) {
    const auto it = got.find(name);
    if (it == got.end()) out += fmt::format("missing {}: {}\n", name, line);
    if (it != got.end() && it->second != line)
      out += fmt::format("{}:\n  want {}\n  got  {}\n", name, line, it->second);
  }
  for (const auto& [name, line] : got) {
    if (!want.contains(name)) out += fmt::format("unexpected {}: {}\n", name, line);
  }
  return out;
}

}  // namespace osb::testing
