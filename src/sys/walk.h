#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"

namespace osb::sys {

// The names in one directory, in byte order, without "." and "..". Kept in one block of memory: a directory may have a
// million of them.
class DirectoryNames {
 public:
  struct Name {
    std::uint64_t start;  // the first eight bytes as a big-endian number: most comparisons need no more
    std::uint32_t offset;
    std::uint16_t length;
    std::uint8_t type;  // DT_*, DT_UNKNOWN where the file system does not say
  };

  static Result<DirectoryNames> read(int directory);

  std::size_t size() const { return names_.size(); }
  const Name& operator[](std::size_t i) const { return names_[i]; }
  // Ends in a NUL, so that data() can be given to system calls.
  std::string_view text(std::size_t i) const { return {&block_[names_[i].offset], names_[i].length}; }

 private:
  std::string block_;
  std::vector<Name> names_;
};

// Walks a tree in pre-order, each directory in byte order, symlinks reported and not entered. Entries that vanish are
// skipped; a directory that cannot be read is an error. Memory follows the names of the directories on the way to the
// current entry, and the number of open descriptors is bounded, so neither size nor depth of the tree is limited.
class Walker {
 public:
  struct Entry {
    int directory;                   // holds it: use fstatat(directory, name.data(), ..)
    std::uint64_t directory_number;  // counted from 1; the same for all entries of one directory
    std::string_view name;           // NUL behind it
    std::string_view path;           // root path + '/' + .., as long as that may be
    bool is_directory;
  };

  enum class RootLink { Refuse, Follow };

  // `root` is clean and absolute. Fails with errno ENOTDIR if it is no directory, ELOOP or ENOTDIR if it is a symlink
  // and those are refused. `max_depth` 1 means: only the entries of the root itself.
  static Result<Walker> open(std::string root, std::uint32_t max_depth, RootLink link = RootLink::Refuse);

  // The next entry, valid until the next call; nullptr at the end.
  Result<const Entry*> next();
  // For an entry just returned that is a directory: do not enter it.
  void skip() { enter_ = false; }

  int root() const { return levels_.front().directory.get(); }

 private:
  struct Level {
    UniqueFd directory;  // closed when many levels lie below, and opened again through ".."
    dev_t device = 0;    // known once it is closed
    ino_t inode = 0;
    std::uint64_t number = 0;
    DirectoryNames names;
    std::size_t at = 0;
    std::size_t path_length = 0;  // of this directory in path_
  };

  static constexpr std::size_t kOpenLevels = 64;

  Walker(std::string root, std::uint32_t max_depth) : path_(std::move(root)), max_depth_(max_depth) {}
  Result<void> push(UniqueFd directory);
  Result<bool> enter();
  Result<void> pop();

  std::string path_;
  std::uint32_t max_depth_;
  std::vector<Level> levels_;
  std::uint64_t directories_ = 0;
  Entry entry_{};
  bool enter_ = false;
};

}  // namespace osb::sys
