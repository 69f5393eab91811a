#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "archive/tar_entry.h"
#include "base/error.h"

namespace osb::archive {

// Receives the entries that a TarReader finds. The first error stops the reader, which passes it on.
class TarSink {
 public:
  virtual ~TarSink() = default;
  virtual Result<void> begin(const TarEntry& entry) = 0;
  // Contents of the entry that was begun: in order, never empty, within its size. The holes of a sparse file are not
  // reported.
  virtual Result<void> data(std::uint64_t offset, std::string_view bytes) = 0;
  virtual Result<void> end() = 0;
};

// Takes an archive in pieces of any size. Reads ustar, old tar, pax records, GNU long names and base-256 numbers, and
// all of GNU's sparse formats; anything else (multi-volume, unknown types) is an error rather than a guess. Extended
// headers and sparse maps are limited to a few MiB. Paths are passed on as they are: the sink decides which ones it
// lets in. Broken input is Code::InvalidRequest.
class TarReader {
 public:
  // `what` starts every message: "layer: damaged tar".
  explicit TarReader(TarSink& sink, std::string what = "tar archive") : sink_(sink), what_(std::move(what)) {}

  Result<void> feed(std::string_view bytes);
  // At the end of the input: an error if that was within an entry, or nothing came at all. The two blocks of zeros may
  // be missing, as other readers allow.
  Result<void> finish() const;

 private:
  enum class State { Header, Extended, SparseMap, SparseBlocks, Data, Padding, End };

  // Values of pax records and GNU long names that override fields of the next header.
  struct Overrides {
    std::string path, link, owner, group, sparse_path;
    bool has_path = false, has_link = false, has_owner = false, has_group = false;
    bool has_size = false, has_uid = false, has_gid = false, has_mtime = false;
    bool sparse_major = false, sparse_minor = false, has_real_size = false;
    std::uint64_t size = 0, uid = 0, gid = 0, real_size = 0;
    timespec mtime{};
    std::vector<TarEntry::Segment> segments;  // of the sparse formats 0.0 and 0.1
    std::uint64_t segment_offset = 0;         // the format 0.0 gives offset and length in two records
    std::vector<std::pair<std::string, std::string>> attributes;
  };

  Failure bad(std::string_view why) const;
  Result<void> block(std::string_view bytes);
  Result<void> header(std::string_view block);
  Result<void> begin_entry(std::string_view block, std::uint64_t stored);
  Result<void> begin_sparse(std::vector<TarEntry::Segment> segments, std::uint64_t stored);
  Result<void> begin_data(std::uint64_t stored);
  Result<void> extended(std::string_view block);
  Result<void> records(std::string_view text, Overrides& into);
  Result<void> record(std::string_view key, std::string_view value, Overrides& into);
  Result<void> sparse_record(std::string_view key, std::string_view value, Overrides& into);
  Result<void> sparse_map();
  Result<void> sparse_blocks(std::string_view block, std::size_t at, std::size_t count, std::size_t more);
  Result<void> contents(std::string_view bytes);
  Result<void> after_data();
  Result<void> end_entry();

  TarSink& sink_;
  const std::string what_;
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
  std::vector<TarEntry::Segment> map_;  // of GNU's first sparse format, being collected
  bool overridden_ = false;             // next_ holds something
  bool has_global_ = false;
  Overrides global_;
  Overrides next_;
};

}  // namespace osb::archive
