#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "image/layer_writer.h"
#include "image/manifest.h"
#include "image/reference.h"

namespace osb::image {

struct ExportImage {
  std::vector<Reference> names;  // with tags; may be empty
  std::string config;            // as it came; its diff ids are replaced by those of the layers written
  // Open directories, lowest first: layers of the store, and on top any other directory that becomes a layer (a
  // sandbox's upper directory). They must not change meanwhile; the caller keeps them open.
  std::vector<int> layers;
};

struct ExportedImage {
  Digest manifest;
  std::string config;  // as written
  std::vector<Digest> diff_ids;
  std::uint64_t bytes = 0;  // of the archive
};

// Writes the image as an archive that is an OCI image layout and what `docker load` reads, both over the same blobs.
// Layers are written uncompressed and read twice: once for their sizes and digests, which come first in the archive.
// The first byte is written only after the first pass has succeeded. A tree that changed between is Code::Conflict and
// leaves the archive cut off. Blocks.
Result<ExportedImage> export_image(const ExportImage& image, ByteSink sink);

}  // namespace osb::image
