// Manifests, indexes and configurations from strangers' registries: limits hold and a choice is one of the entries.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "image/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace osb::image;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto document = decode_manifest(text)) {
    if (const Manifest* manifest = std::get_if<Manifest>(&*document)) {
      if (manifest->layers.size() > kMaxLayers) std::abort();
    } else {
      const Index& index = std::get<Index>(*document);
      const auto chosen = choose_platform(index, host_platform());
      const auto same = [&](const Index::Entry& entry) { return entry.manifest == *chosen; };
      if (chosen && std::ranges::none_of(index.entries, same)) std::abort();
    }
  }
  if (const auto config = decode_image_config(text)) {
    if (config->diff_ids.size() > kMaxLayers) std::abort();
    for (const auto& word : config->cmd) {
      if (word.find('\0') != word.npos) std::abort();
    }
  }
  return 0;
}
