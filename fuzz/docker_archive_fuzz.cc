// The documents of an archive of images: manifest.json of `docker save`, index.json of an OCI layout. Accepted
// documents must keep to the limits.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "image/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace osb::image;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto images = decode_docker_archive(text)) {
    if (images->size() > kMaxIndexEntries) std::abort();
    for (const DockerArchiveImage& image : *images) {
      if (image.config.empty() || image.layers.size() > kMaxLayers) std::abort();
    }
  }
  if (const auto decoded = decode_manifest(text)) {
    if (const Index* index = std::get_if<Index>(&*decoded)) {
      if (index->entries.size() > kMaxIndexEntries) std::abort();
    }
  }
  return 0;
}
