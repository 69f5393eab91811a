#include "containerd/commit/base_image.h"

#include <optional>
#include <utility>
#include <variant>
#include <vector>

namespace osb::containerd {
namespace {

// The image of this manifest if its layers are those of `parent`. Nothing: they are others.
net::awaitable<Result<std::optional<BaseImage>>> try_manifest(Client& client, image::Manifest manifest,
                                                              const std::string& parent) {
  auto text = co_await client.read_blob(manifest.config.digest, image::kMaxConfigBytes);
  if (!text) co_return Failure(text.error());
  const auto config = image::decode_image_config(*text);
  if (!config) co_return Failure(config.error());
  if (chain_id(config->diff_ids) != parent || config->diff_ids.size() != manifest.layers.size()) {
    co_return std::optional<BaseImage>();
  }
  co_return BaseImage{{}, std::move(*text), std::move(manifest.layers)};
}

net::awaitable<Result<std::optional<BaseImage>>> try_target(Client& client, image::Descriptor target,
                                                            const std::string& parent) {
  const auto text = co_await client.read_blob(target.digest, image::kMaxManifestBytes);
  if (!text) co_return Failure(text.error());
  auto decoded = image::decode_manifest(*text, target.media_type);
  if (!decoded) co_return Failure(decoded.error());
  if (auto* manifest = std::get_if<image::Manifest>(&*decoded)) {
    co_return co_await try_manifest(client, std::move(*manifest), parent);
  }
  // The container's platform is that of the manifest that fits; those of other platforms are usually not here.
  std::optional<Error> failed;
  for (const image::Index::Entry& entry : std::get<image::Index>(*decoded).entries) {
    const auto inner = co_await client.read_blob(entry.manifest.digest, image::kMaxManifestBytes);
    if (!inner && inner.error().code == Code::NotFound) continue;
    if (!inner) co_return Failure(inner.error());
    auto each = image::decode_manifest(*inner, entry.manifest.media_type);
    auto* manifest = each ? std::get_if<image::Manifest>(&*each) : nullptr;
    if (manifest == nullptr) continue;
    auto found = co_await try_manifest(client, std::move(*manifest), parent);
    if (found && *found) co_return found;
    if (!found) failed = found.error();
  }
  if (failed) co_return Failure(*failed);
  co_return std::optional<BaseImage>();
}

}  // namespace

net::awaitable<Result<BaseImage>> find_base(Client& client, Container container, std::string parent) {
  const auto named = co_await client.image(container.image);
  if (!named && named.error().code != Code::NotFound) co_return Failure(named.error());
  if (named) {
    auto found = co_await try_target(client, named->target, parent);
    if (!found && found.error().code == Code::Unavailable) co_return Failure(found.error());
    if (found && *found) {
      (*found)->name = container.image;
      co_return std::move(**found);
    }
  }
  auto all = co_await client.images();
  if (!all) co_return Failure(all.error());
  for (const ImageName& each : *all) {
    auto found = co_await try_target(client, each.target, parent);
    if (!found && found.error().code == Code::Unavailable) co_return Failure(found.error());
    if (!found || !*found) continue;
    (*found)->name = each.name;
    co_return std::move(**found);
  }
  co_return fail(Code::NotFound, "image " + container.image + " of container " + container.id +
                                     " is no longer in containerd: pull it again, so that its layers can be saved");
}

}  // namespace osb::containerd
