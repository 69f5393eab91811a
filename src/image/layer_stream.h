#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "base/error.h"
#include "image/digest.h"

namespace osb::image {

// Where a layer's bytes come from: fills the front of the buffer, 0 at the end. May block. Called on another thread.
using ByteSource = std::move_only_function<Result<std::size_t>(std::span<char>)>;
// Reads an open file from where it stands; the descriptor must outlive the source.
ByteSource read_descriptor(int fd);

// A layer as a plain tar: finds out by itself whether it is gzip, zstd or neither, and sums both forms on the way.
// A thread of its own reads and decompresses a few buffers ahead, so that this work and the writing of files overlap.
class LayerStream {
 public:
  // `limit`: more decompressed bytes than that are Code::TooLarge.
  LayerStream(ByteSource source, std::uint64_t limit);
  // Stops the thread, which may first have to come back from `source`.
  ~LayerStream();
  LayerStream(const LayerStream&) = delete;
  LayerStream& operator=(const LayerStream&) = delete;

  // The next piece, empty at the end; valid until the next call. A truncated or damaged stream is
  // Code::InvalidRequest.
  Result<std::string_view> next();

  struct Sums {
    Digest compressed;    // of the bytes as they came
    Digest uncompressed;  // the diff id
    std::uint64_t bytes;  // uncompressed
  };
  // After next() has returned the end.
  Sums sums();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace osb::image
