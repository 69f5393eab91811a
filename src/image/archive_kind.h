#pragma once

#include "image/layer_stream.h"

namespace osb::image {

// The kind of a tar, by the first entry with a telling name: archives of images have blobs/, index.json, manifest.json,
// oci-layout, repositories and <64 hex digits>.., root directories bin, etc, usr and the like.
enum class ArchiveKind { Images, Root };

// `source` is replaced by one that begins with what was read of it here: a few buffers, as a rule. Where no name in the
// first 32 MiB says anything, or the stream is no tar, it counts as images, so that the reader of images reports the
// error. Blocks.
ArchiveKind archive_kind(ByteSource& source);

}  // namespace osb::image
