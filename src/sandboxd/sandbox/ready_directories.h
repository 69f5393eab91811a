#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/error.h"

namespace osb::sandboxd {

// Directories of sandboxes, with upper/, work/ and run/{entrypoint.log,execd.log}, made ahead: making one takes a tenth
// of a create, most of it ext4's search for a place (kernel/spread_directories.h), and giving a ready one its name
// almost no time. They wait in `<state>/ready/`; after a crash no sandbox owns them.
//
// Any thread, several at a time.
class ReadyDirectories {
 public:
  // Leftovers of an earlier process are moved to `<state>/trash/`, which exists.
  static Result<std::unique_ptr<ReadyDirectories>> open(const std::string& state_directory);

  // A new directory at `target`, on the same file system: one of the ready ones, or made now when there is none.
  Result<void> take(const std::string& target);
  // A directory without a name: give_name() or discard() follows.
  Result<std::string> take();
  Result<void> give_name(const std::string& path, const std::string& target) const;
  void discard(const std::string& path) const;
  // The same, made now: without files, as a limit on what is written in it needs it.
  Result<void> make_empty(const std::string& target) const;

  // Until there are as many as are kept. Blocks.
  void refill();

 private:
  explicit ReadyDirectories(std::string directory) : directory_(std::move(directory)) {}
  std::string take_ready();
  Result<std::string> make(std::size_t limit);

  const std::string directory_;
  std::mutex mutex_;  // what follows
  std::vector<std::string> ready_;
  std::uint64_t next_ = 0;
};

}  // namespace osb::sandboxd
