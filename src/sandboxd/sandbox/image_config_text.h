#pragma once

#include <string>

#include "image/manifest.h"

namespace osb::sandboxd {

// The configuration as an OCI document, for snapshots: image::decode_image_config reads it back. Only what a sandbox
// takes from it, and the diff ids.
std::string encode_image_config(const image::ImageConfig& config);

}  // namespace osb::sandboxd
