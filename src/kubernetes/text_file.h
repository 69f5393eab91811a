#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/error.h"

namespace osb::kubernetes {

// A small file without the white space at its end. An error names the file.
Result<std::string> read_text_file(const std::filesystem::path& path, std::size_t limit);

// A file that another program exchanges. It is looked at when it is needed, which costs one stat().
class WatchedFile {
 public:
  explicit WatchedFile(std::filesystem::path path) : path_(std::move(path)) {}

  // True when the file differs from the one that the last read() has seen, or none was read yet.
  bool changed() const;
  // The content. An empty file is an error: its writer has not finished.
  Result<std::string> read();
  const std::filesystem::path& path() const { return path_; }

 private:
  struct Stamp {
    std::uint64_t device = 0, inode = 0, size = 0;
    std::int64_t seconds = 0, nanos = 0;
    bool operator==(const Stamp&) const = default;
  };
  std::optional<Stamp> stamp() const;

  std::filesystem::path path_;
  std::optional<Stamp> seen_;
};

}  // namespace osb::kubernetes
