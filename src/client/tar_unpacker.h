#pragma once

#include <cstdint>
#include <opensandbox/error.h>
#include <string>
#include <string_view>
#include <time.h>
#include <utility>
#include <vector>

#include "base/unique_fd.h"

namespace opensandbox {

// Unpacks a tar stream from a sandbox into a local directory and nowhere else: the sandbox is not trusted. Absolute
// paths, "..", and paths that lead through a symlink are errors. What is unpacked belongs to the caller and has no
// setuid or setgid bits; devices and fifos are left out. A file gets its name when it is complete. Reads ustar, pax
// records, GNU long names and GNU's sparse format 1.0.
class TarUnpacker {
 public:
  // Makes the directory if it is missing.
  static Result<TarUnpacker> open(const std::string& directory);
  TarUnpacker(TarUnpacker&&) noexcept = default;
  ~TarUnpacker();

  Result<void> feed(std::string_view bytes);
  // At the end of the stream: an error if that was within an entry. Directories get their modes and times now.
  Result<void> finish();

 private:
  enum class State { Header, Extended, SparseMap, Data, Padding, End };
  struct Segment {
    std::uint64_t offset;
    std::uint64_t length;
  };
  struct Entry {
    char type = '0';
    std::string path;
    std::string link;
    unsigned mode = 0;
    timespec mtime{};
    std::uint64_t size = 0;  // when unpacked
  };
  struct Overrides {
    std::string path, link, sparse_name;
    bool has_size = false, has_mtime = false, sparse = false;
    std::uint64_t size = 0, real_size = 0;
    timespec mtime{};
  };
  struct Place {
    osb::UniqueFd parent;
    std::string name;
  };
  struct Directory {
    std::string path;
    unsigned mode;
    timespec mtime;
  };

  explicit TarUnpacker(osb::UniqueFd root) : root_(std::move(root)) {}

  Result<void> header();
  Result<void> extended();
  Result<void> records(std::string_view text);
  Result<bool> sparse_map();
  Result<void> begin(std::uint64_t stored);
  Result<void> contents(std::string_view bytes);
  Result<void> end_file();
  Result<Place> place_of(const std::string& path) const;
  Result<osb::UniqueFd> open_beneath(const std::string& path, int flags) const;
  Result<void> make_directory();
  Result<void> make_link();
  void discard();

  osb::UniqueFd root_;
  State state_ = State::Header;
  std::string block_;
  std::uint64_t wanted_ = 512;
  char extended_type_ = 0;
  Overrides next_;
  Entry entry_;
  std::uint64_t left_ = 0;
  std::uint64_t padding_ = 0;
  std::vector<Segment> segments_;
  std::size_t segment_ = 0;
  std::uint64_t segment_done_ = 0;
  osb::UniqueFd file_;  // being written; none: its contents are skipped
  Place target_;
  std::string staged_;
  std::vector<Directory> directories_;
  bool any_ = false;
};

}  // namespace opensandbox
