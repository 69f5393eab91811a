#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"

namespace osb::execd {

// The output of a background command, byte for byte, in unnamed files. Offsets count from the first byte ever written
// and stay valid. Two files take turns, each half of the limit: when the second is full the first goes, so between half
// and all of the limit is kept, and bytes being sent to a client stay until that is done. Nothing is created before the
// first byte. Where no file can be made, or the disk is full, the bytes are kept in memory, and much fewer of them.
class OutputLog {
 public:
  struct Part {
    std::shared_ptr<const UniqueFd> file;
    std::uint64_t offset;  // in the file
    std::uint64_t length;
  };

  OutputLog(std::string directory, std::uint64_t limit) : directory_(std::move(directory)), limit_(limit) {}

  void append(std::string_view bytes);
  // Offsets of the first kept byte and behind the last one.
  std::uint64_t begin() const { return files_[0].start; }
  std::uint64_t end() const { return files_[1].file ? end_of(files_[1]) : end_of(files_[0]); }
  // The bytes from `from` (not before begin()) to end(), in at most two parts.
  std::vector<Part> slice(std::uint64_t from) const;
  // Forgets all bytes; offsets go on.
  void discard();
  std::uint64_t file_bytes() const { return end() - begin(); }

 private:
  struct File {
    std::shared_ptr<const UniqueFd> file;
    std::uint64_t start = 0;  // offset of its first byte
    std::uint64_t size = 0;
    bool in_memory = false;
  };
  static std::uint64_t end_of(const File& file) { return file.start + file.size; }

  File* writable();
  bool open(File& file);
  bool open_in_memory(File& file);
  bool go_on_in_memory(File& full);

  const std::string directory_;
  std::uint64_t limit_;
  std::array<File, 2> files_;  // the older one first
};

}  // namespace osb::execd
