#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "image/layer_store.h"
#include "image/layer_stream.h"
#include "image/manifest.h"

namespace osb::image {

struct ImportOptions {
  // Instead of the names in the archive, which must then hold one image, or a root directory.
  std::optional<Reference> name;
  Platform platform = host_platform();
  UnpackOptions unpack;
  std::uint64_t max_bytes = std::uint64_t{64} << 30;  // of the archive, decompressed once
};

struct ImportedImage {
  ImageRecord record;
  std::vector<LayerStore::Lease> layers;  // lowest first
};

// Images out of an archive: what `docker save` writes (of any version) or an OCI image layout in a tar, plain or
// compressed as a whole (gzip, zstd). The stream is read once; its entries are kept in a scratch directory of the
// store, because a manifest may come after its layers. Nothing is recorded before everything is there and checked, and
// an archive of several images is recorded image by image after that. One image is returned for each name.
//
// With a name the archive may also be the tar of a root directory (see archive_kind.h), as `docker export` or
// `tar c -C root .` write it: an image of that one layer, unpacked as it comes.
//
// Entries are looked up by name in a table and never become paths, links between them included. Blobs are compared with
// their digests and sizes, layers with their diff ids. Errors: InvalidRequest for a damaged or hostile archive, with
// the entry named; NotFound for an image of another platform; TooLarge. Blocks; any thread.
Result<std::vector<ImportedImage>> import_archive(LayerStore& store, ByteSource source, const ImportOptions& options);

// The root directory `root` as an image of one layer, with a configuration that says nothing but the platform.
Result<ImportedImage> import_directory(LayerStore& store, UniqueFd root, const Reference& name,
                                       const UnpackOptions& options = {});

}  // namespace osb::image
