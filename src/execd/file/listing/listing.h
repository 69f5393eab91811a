#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "execd/file/content/ordered_pieces.h"
#include "execd/file/listing/file_info.h"
#include "execd/file/listing/glob.h"
#include "execd/owner/owner_names.h"
#include "sys/walk.h"

namespace osb::execd {

// The elements of a JSON array of FileInfo, made piece by piece so that a tree of a million files does not sit in
// memory. Most of the time goes into asking for the attributes of each file, so several threads make pieces at once.
class Listing {
 public:
  // Everything below the directory `path` down to `depth`, directories before what they hold. A symlink or something
  // else that is no directory is Code::InvalidRequest. The owners outlive the listing.
  static Result<std::unique_ptr<Listing>> list(const std::string& path, std::uint32_t depth, OwnerDatabase& owners);
  // Everything but directories below `path` whose name matches; if `path` is no directory, `path` itself.
  static Result<std::unique_ptr<Listing>> search(const std::string& path, std::string_view pattern,
                                                 OwnerDatabase& owners);

  // The maker of OrderedPieces, numbered from 0. Blocks. Each element has a comma before it, also the very first; a
  // piece may have none.
  Result<OrderedPieces::Made> make(std::size_t worker, std::string& out);

 private:
  // Names found and not yet looked at, in one block of memory.
  struct Batch {
    struct Run {
      UniqueFd directory;
      std::string path;     // of the directory, escaped, with a slash at its end
      std::size_t end = 0;  // of its names in the block
    };
    std::vector<Run> runs;
    std::string names;  // each with a NUL behind it
    OrderedPieces::Made made{};
  };

  Listing(std::optional<sys::Walker> walker, OwnerDatabase& owners);
  Result<Batch> take();
  void append_root(std::string& out, FileInfoWriter& writer);

  std::mutex mutex_;                   // of what take() uses
  std::optional<sys::Walker> walker_;  // nothing: the root is no directory
  bool is_search_ = false;
  std::optional<Glob> glob_;  // only of a search that does not take all names
  std::size_t pieces_ = 0;

  std::string root_;
  std::array<FileInfoWriter, OrderedPieces::kWorkers> writers_;  // each used by its worker only
};

}  // namespace osb::execd
