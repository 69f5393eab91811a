#pragma once

#include <cstdint>
#include <string>

#include "archive/tar_reader.h"
#include "base/error.h"
#include "image/layer_stream.h"

namespace osb::image {

// Reads a whole tar, decompressed on the way, and gives its entries to `sink`; everything behind the end marker is read
// too, since it belongs to the sums. `what` names it in errors: "layer: damaged tar: ..". Blocks.
Result<LayerStream::Sums> read_tar(const std::string& what, ByteSource source, std::uint64_t limit,
                                   archive::TarSink& sink);

}  // namespace osb::image
