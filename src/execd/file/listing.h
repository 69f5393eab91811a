#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "execd/file/glob.h"
#include "execd/file/owner_names.h"
#include "execd/file/walk.h"

namespace osb::execd {

// A JSON array of FileInfo, made piece by piece so that a tree of a million files does not sit in memory.
class Listing {
 public:
  // Everything below the directory `path` down to `depth`, directories before what they hold. A symlink or something
  // else that is no directory is Code::InvalidRequest.
  static Result<Listing> list(const std::string& path, std::uint32_t depth, OwnerNames names);
  // Everything but directories below `path` whose name matches; if `path` is no directory, `path` itself.
  static Result<Listing> search(const std::string& path, std::string_view pattern, OwnerNames names);

  // Appends until `out` has about `limit` bytes; false when that was the rest. Blocks.
  Result<bool> fill(std::string& out, std::size_t limit);

 private:
  Listing(std::optional<Walker> walker, OwnerNames names) : walker_(std::move(walker)), names_(std::move(names)) {}
  void append(std::string& out, std::string_view path, const struct stat& st);

  std::optional<Walker> walker_;  // nothing: the root is no directory
  OwnerNames names_;
  std::optional<Glob> glob_;  // only of a search
  std::string root_;
  bool started_ = false;
  bool first_ = true;
};

}  // namespace osb::execd
