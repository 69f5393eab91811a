#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "containerd/messages.h"
#include "image/manifest.h"

namespace osb::containerd {

// The name that snapshotters give to a stack of layers: OCI's chain id. Empty for no layers.
std::string chain_id(std::span<const image::Digest> diff_ids);

// The image that a container was started from.
struct BaseImage {
  std::string name;
  std::string config;  // as it is in the content store
  std::vector<image::Descriptor> layers;
};

struct NewLayer {
  image::Descriptor descriptor;
  image::Digest diff_id;  // of the uncompressed layer
};

struct CommittedImage {
  std::string config, manifest_text;
  image::Manifest manifest;
  image::Descriptor target;  // the manifest's
  Labels references;         // of the manifest's blob: containerd keeps what they name
};

// The base with a layer on top and its settings as they are, in OCI's types. `created` is a time in RFC 3339.
Result<CommittedImage> commit_onto(const BaseImage& base, const NewLayer& layer, const std::string& created,
                                   const std::string& comment);

// The mounts of a snapshot that is in use, changed so that a second mount only reads: two mounts of overlayfs may not
// share a directory that both write to.
std::vector<Mount> only_reading(std::vector<Mount> mounts);

}  // namespace osb::containerd
