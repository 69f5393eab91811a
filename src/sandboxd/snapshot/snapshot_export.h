#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "image/image_exporter.h"
#include "sandboxd/snapshot/snapshot_store.h"

namespace osb::sandboxd {

// Writes the snapshot as an archive (OCI layout and `docker load` in one): the image's layers, lowest first as
// base.diff_ids has them, then the snapshots' on top. `names` may be empty. Blocks. The caller holds the image's
// layers, and counts the snapshot as used meanwhile (remove()).
Result<image::ExportedImage> export_snapshot(const SnapshotStore& store, const std::string& id,
                                             const std::vector<std::filesystem::path>& image_layers,
                                             std::vector<image::Reference> names, image::ByteSink sink);

}  // namespace osb::sandboxd
