// The decompression of layers (gzip, zstd, neither). The first byte says how the input is cut into pieces, which must
// not change what comes out, and no more may come out than the limit allows.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>

#include "image/layer_stream.h"

namespace {

constexpr std::uint64_t kLimit = 1 << 22;

std::string decompress(std::string_view input, std::size_t piece) {
  osb::image::LayerStream stream(
      [input, piece](std::span<char> buffer) mutable -> osb::Result<std::size_t> {
        const std::size_t n = std::min({piece, input.size(), buffer.size()});
        std::memcpy(buffer.data(), input.data(), n);
        input.remove_prefix(n);
        return n;
      },
      kLimit);
  std::string out;
  for (;;) {
    const auto got = stream.next();
    if (!got) return "error: " + got.error().message;
    if (got->empty()) break;
    out += *got;
    if (out.size() > kLimit) std::abort();
  }
  const auto sums = stream.sums();
  if (sums.bytes != out.size() || sums.uncompressed != osb::image::Digest::of(out)) std::abort();
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data + 1), size - 1);
  if (decompress(input, SIZE_MAX) != decompress(input, std::size_t{1} + data[0])) std::abort();
  return 0;
}
