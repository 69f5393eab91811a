#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "execd/file/tar_entry.h"

namespace osb::execd {

// Receives what a TarReader finds. The first error stops the reader, which passes it on.
class TarSink {
 public:
  virtual ~TarSink() = default;
  virtual Result<void> begin(const TarEntry& entry) = 0;
  // Contents of the entry that was begun: in order, never empty, within its size. What a sparse file leaves out is not
  // reported.
  virtual Result<void> data(std::uint64_t offset, std::string_view bytes) = 0;
  virtual Result<void> end() = 0;
};

// Takes an archive in pieces of any size. Reads ustar, old tar, pax records, GNU long names and base-256 numbers, and
// sparse format 1.0; anything else (multi-volume, older sparse formats, unknown types) is an error rather than a guess.
// Paths are passed on as they are: the sink decides what it lets in. Broken input is Code::InvalidRequest.
class TarReader {
 public:
  explicit TarReader(TarSink& sink) : sink_(sink) {}

  Result<void> feed(std::string_view bytes);
  // At the end of the input: an error if that was within an entry, or nothing came at all. The two blocks of zeros may
  // be missing, as other readers allow.
  Result<void> finish() const;

 private:
  enum class State { Header, Extended, SparseMap, Data, Padding, End };

  // Values of pax records and GNU long names that override fields of the next header.
  struct Overrides {
    std::string path, link, owner, group, sparse_path;
    bool has_path = false, has_link = false, has_owner = false, has_group = false;
    bool has_size = false, has_uid = false, has_gid = false, has_mtime = false;
    bool sparse_major = false, sparse_minor = false, sparse_size = false;
    std::uint64_t size = 0, uid = 0, gid = 0, real_size = 0;
    timespec mtime{};
  };

  Result<void> header();
  Result<void> begin_entry(char type, std::uint64_t stored);
  Result<void> extended();
  Result<void> records(std::string_view text, Overrides& into);
  Result<void> record(std::string_view key, std::string_view value, Overrides& into);
  Result<bool> sparse_map();
  Result<void> contents(std::string_view bytes);
  Result<void> after_data();
  Result<void> end_entry();

  TarSink& sink_;
  State state_ = State::Header;
  std::string block_;               // a header, an extended header or a sparse map being collected
  std::size_t wanted_ = kTarBlock;  // its size
  char extended_type_ = 0;
  std::uint64_t left_ = 0;   // bytes of stored data (or padding) to come
  std::size_t padding_ = 0;  // behind them
  bool any_ = false;
  TarEntry entry_;
  std::size_t segment_ = 0;
  std::uint64_t segment_done_ = 0;
  Overrides global_;
  Overrides next_;
};

}  // namespace osb::execd
