#pragma once

#include "image/layer_stream.h"

namespace osb::image {

// What a tar is, going by the first entry whose name says so: archives of images have blobs/, index.json,
// manifest.json, oci-layout, repositories and <64 hex digits>.., root directories bin, etc, usr and the like.
enum class ArchiveKind { Images, Root };

// `source` is replaced by one that begins with what was read of it here: a few buffers, as a rule. Where no name in the
// first 32 MiB says anything, or the stream is no tar, it counts as images, so that whoever reads those says what is
// wrong with it. Blocks.
ArchiveKind archive_kind(ByteSource& source);

}  // namespace osb::image
