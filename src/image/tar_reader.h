#pragma once

#include <clocale>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "image/layer_stream.h"

struct archive;
struct archive_entry;

namespace osb::image {

// A piece of a file and where it belongs.
struct FileBlock {
  std::uint64_t offset = 0;
  std::string_view bytes;
};
Result<void> write_at(int file, FileBlock block);

// The entries of a tar (libarchive), decompressed on the way. Names come out as the bytes they are. To be used by the
// thread that made it, and gone before that does anything else: it changes the thread's locale.
class TarReader {
 public:
  // `what` names it in errors: "layer: damaged tar: ..".
  TarReader(std::string what, ByteSource source, std::uint64_t limit);
  ~TarReader();
  TarReader(const TarReader&) = delete;
  TarReader& operator=(const TarReader&) = delete;

  // The next entry, valid until the next call; nullptr at the end, when everything behind the end marker has been read
  // too: it belongs to the sums.
  Result<archive_entry*> next();
  // The next piece of the entry's data, holes left out; empty at the end. Valid until the next call.
  Result<FileBlock> data();
  // After next() has returned the end.
  LayerStream::Sums sums() { return stream_.sums(); }

 private:
  Failure failed();
  const std::string what_;
  LayerStream stream_;
  std::optional<Error> stream_error_;
  bool opened_ = false;
  std::unique_ptr<archive, int (*)(archive*)> archive_;
  locale_t utf8_;
  locale_t before_ = nullptr;
};

}  // namespace osb::image
