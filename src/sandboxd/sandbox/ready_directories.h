#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/error.h"
#include "sandboxd/disk/disk_trees.h"

namespace osb::sandboxd {

// Directories of sandboxes, with upper/, work/ and run/{entrypoint.log,execd.log}, made ahead: making one takes a tenth
// of a create, most of it ext4's search for a place (kernel/spread_directories.h), and giving a ready one its name
// almost no time. They wait in `<disk>/ready/`; after a crash no sandbox owns them. Their trees have the default limit.
//
// Any thread, several at a time.
class ReadyDirectories {
 public:
  // Leftovers of an earlier process are moved to `<disk>/trash/`, which exists.
  static Result<std::unique_ptr<ReadyDirectories>> open(const std::string& disk, DiskTrees trees = {},
                                                        std::uint64_t disk_bytes = 0);

  // A new directory at `target`, on the same file system: one of the ready ones, or made now when there is none.
  Result<void> take(const std::string& target);
  // A directory without a name: give_name() or discard() follows.
  Result<std::string> take();
  Result<void> give_name(const std::string& path, const std::string& target) const;
  void discard(const std::string& path) const;
  std::string tree(const std::string& path) const { return path + trees_.below_directory(); }

  // Until there are as many as are kept. Blocks.
  void refill();

 private:
  ReadyDirectories(std::string directory, DiskTrees trees, std::uint64_t disk_bytes)
      : directory_(std::move(directory)), trees_(std::move(trees)), disk_bytes_(disk_bytes) {}
  std::string take_ready();
  Result<void> make_empty(const std::string& target) const;
  Result<std::string> make(std::size_t limit);

  const std::string directory_;
  const DiskTrees trees_;
  const std::uint64_t disk_bytes_;
  std::mutex mutex_;  // what follows
  std::vector<std::string> ready_;
  std::uint64_t next_ = 0;
};

}  // namespace osb::sandboxd
