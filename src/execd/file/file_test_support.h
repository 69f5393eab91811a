#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <sys/mount.h>
#include <sys/stat.h>

#include <gtest/gtest.h>

// Shared by the tests of the file module.
namespace osb::execd {

inline std::string content_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write(const std::filesystem::path& path, std::string_view content) {
  std::ofstream(path, std::ios::binary) << content;
}

inline struct stat stat_of(const std::filesystem::path& path) {
  struct stat st{};
  EXPECT_EQ(::lstat(path.c_str(), &st), 0) << path;
  return st;
}

// A mount that goes with the object.
class Mount {
 public:
  Mount(const char* source, const std::filesystem::path& target, const char* type, unsigned long flags,
        const char* options = nullptr)
      : target_(target), mounted_(::mount(source, target.c_str(), type, flags, options) == 0) {}
  ~Mount() {
    if (mounted_) ::umount2(target_.c_str(), MNT_DETACH);
  }
  Mount(const Mount&) = delete;
  Mount& operator=(const Mount&) = delete;
  bool mounted() const { return mounted_; }

 private:
  std::filesystem::path target_;
  bool mounted_;
};

}  // namespace osb::execd
