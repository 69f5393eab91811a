#include "sandboxd/snapshot/snapshot_export.h"

#include <algorithm>
#include <fcntl.h>
#include <utility>

#include "base/unique_fd.h"
#include "sys/syscall.h"

namespace osb::sandboxd {

Result<image::ExportedImage> export_snapshot(const SnapshotStore& store, const std::string& id,
                                             const std::vector<std::filesystem::path>& image_layers,
                                             std::vector<image::Reference> names, image::ByteSink sink) {
  auto info = store.get(id);
  if (!info) return Failure(info.error());
  auto own = store.layers(id);
  if (!own) return Failure(own.error());
  std::vector<std::filesystem::path> paths = image_layers;
  std::ranges::reverse(*own);
  paths.insert(paths.end(), own->begin(), own->end());

  std::vector<UniqueFd> open;
  image::ExportImage out{std::move(names), std::move(info->base.config), {}};
  for (const auto& path : paths) {
    auto fd = sys::open_at(AT_FDCWD, path.string(), O_RDONLY | O_DIRECTORY);
    if (!fd) return with_context("snapshot " + id, fd.error());
    out.layers.push_back(fd->get());
    open.push_back(std::move(*fd));
  }
  return image::export_image(out, std::move(sink));
}

}  // namespace osb::sandboxd
