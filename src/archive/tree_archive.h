#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "archive/tar_entry.h"
#include "base/error.h"
#include "base/unique_fd.h"
#include "sys/walk.h"

namespace osb::archive {

struct PackRules {
  // Without owners everything in the archive belongs to root, which means: to the user who unpacks it.
  bool owners = false;
  std::function<const std::string*(uid_t)> user_name;   // of owners; nullptr for an id without a name
  std::function<const std::string*(gid_t)> group_name;  // of owners
  bool special_files = false;                           // fifos and devices; otherwise left out
};

// A directory as a tar archive, made piece by piece: entries are named "./..", starting with the directory itself.
// Hard links within the tree stay links, holes stay holes, sockets are left out as in every tar. A file that shrinks
// while it is read is filled up with zeros, one that grows is cut at its first size: the archive stays well-formed.
class TreeArchive {
 public:
  // Fails if `path` is no directory (errno ENOTDIR) or not there (ENOENT).
  static Result<TreeArchive> open(const std::string& path, PackRules rules);

  // Appends until `out` has about `limit` bytes; false when that was the rest. Blocks.
  Result<bool> fill(std::string& out, std::size_t limit);

 private:
  TreeArchive(sys::Walker walker, std::size_t root_length, PackRules rules)
      : walker_(std::move(walker)), root_length_(root_length), rules_(std::move(rules)) {}

  Result<void> add(std::string& out, const sys::Walker::Entry& entry);
  Result<void> add_file(std::string& out, const sys::Walker::Entry& entry, TarEntry header);
  void describe(TarEntry& entry, const struct stat& st);
  Result<void> read_contents(std::string& out, std::size_t limit);

  sys::Walker walker_;
  std::size_t root_length_;
  PackRules rules_;
  bool started_ = false;
  std::map<std::pair<dev_t, ino_t>, std::string> linked_;  // first path of files with several names
  UniqueFd file_;                                          // whose contents are being read
  std::string file_path_;
  std::vector<TarEntry::Segment> segments_;
  std::size_t segment_ = 0;
  std::uint64_t done_ = 0;  // of the segment
  std::size_t padding_ = 0;
};

}  // namespace osb::archive
