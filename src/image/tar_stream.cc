#include "image/tar_stream.h"

namespace osb::image {

Result<LayerStream::Sums> read_tar(const std::string& what, ByteSource source, std::uint64_t limit,
                                   archive::TarSink& sink) {
  LayerStream stream(std::move(source), limit);
  archive::TarReader reader(sink, what + ": damaged tar");
  for (;;) {
    const auto piece = stream.next();
    if (!piece) return Failure(piece.error());
    if (piece->empty()) break;
    if (auto fed = reader.feed(*piece); !fed) return Failure(fed.error());
  }
  if (auto whole = reader.finish(); !whole) return Failure(whole.error());
  return stream.sums();
}

}  // namespace osb::image
