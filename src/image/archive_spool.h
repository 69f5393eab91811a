#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "archive/tar_reader.h"
#include "base/error.h"
#include "base/unique_fd.h"

namespace osb::image {

// The entries of an archive of images: their data in numbered files of a scratch directory, their names in memory only.
// Names never become paths, and links lead to other entries only. Takes the entries as a sink of a TarReader. Blocks.
class ArchiveSpool final : public archive::TarSink {
 public:
  // `directory` exists, is empty, and belongs to this object alone. More than `limit` bytes are Code::TooLarge.
  ArchiveSpool(std::filesystem::path directory, std::uint64_t limit)
      : directory_(std::move(directory)), limit_(limit) {}

  bool contains(const std::string& name) const { return entries_.contains(name); }
  // Follows links inside the archive. Code::InvalidRequest if it is missing.
  Result<UniqueFd> open(std::string_view name, std::uint64_t* size = nullptr) const;
  Result<std::string> text(std::string_view name, std::size_t limit) const;

  Result<void> begin(const archive::TarEntry& entry) override;
  Result<void> data(std::uint64_t offset, std::string_view bytes) override;
  Result<void> end() override;

 private:
  struct Entry {
    std::size_t file = 0;
    std::uint64_t size = 0;
    std::string link;  // another entry's name, then the rest means nothing
  };
  std::filesystem::path path(std::size_t file) const { return directory_ / std::to_string(file); }

  const std::filesystem::path directory_;
  const std::uint64_t limit_;
  std::map<std::string, Entry> entries_;
  std::size_t files_ = 0;
  std::size_t count_ = 0;
  std::uint64_t bytes_ = 0;
  // The entry whose contents come; no name: none that counts.
  std::string name_;
  Entry entry_;
  UniqueFd file_;
};

// Code::InvalidRequest that names the entry.
Failure refuse_entry(std::string_view entry, std::string_view why);

}  // namespace osb::image
