#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/unique_fd.h"

namespace osb {

// A file of lines that does not grow without end: one that would get longer than `rotate_bytes` becomes path.1, path.1
// becomes path.2, and so on; of `keep_files`, counting the one being written, the oldest goes. Not synchronised.
class RotatingFile {
 public:
  RotatingFile(std::string path, std::uint64_t rotate_bytes, int keep_files)
      : path_(std::move(path)), rotate_bytes_(rotate_bytes), keep_files_(keep_files) {}

  // Appends to what is there; a new file is 0640.
  Result<void> open();
  // One line, with its end, in one write(2). A full disk loses it: there is nowhere to say so.
  void write(std::string_view line);

 private:
  void rotate();

  std::string path_;
  std::uint64_t rotate_bytes_;
  int keep_files_;
  UniqueFd fd_;
  std::uint64_t size_ = 0;
  bool rotates_ = false;
};

// One line goes out in one write(2), so lines of several processes and threads do not mix.
void write_line(int fd, std::string_view line);

}  // namespace osb
