#include "containerd/commit/committed_image.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include "api/json.h"
#include "image/image_pusher.h"

namespace osb::containerd {
namespace {

namespace json = api::json;

// Docker's types of layers under OCI's names; a manifest does not mix the two.
Result<std::string> oci_layer_type(const std::string& type) {
  if (!image::is_layer_media_type(type)) return fail(Code::Unsupported, "a layer of type '" + type + "'");
  const std::string plain = image::kOciLayerType;
  if (type.ends_with("gzip")) return plain + "+gzip";
  if (type.ends_with("zstd")) return plain + "+zstd";
  return plain;
}

image::Descriptor describe(const char* type, std::string_view bytes) {
  return {type, image::Digest::of(bytes), bytes.size()};
}

Result<std::string> config_onto(const BaseImage& base, const NewLayer& layer, const std::string& created,
                                const std::string& comment) {
  auto config = api::parse_json(base.config);
  if (!config) return Failure(config.error());
  json::object* object = config->if_object();
  json::value* rootfs = object != nullptr ? object->if_contains("rootfs") : nullptr;
  json::value* ids = rootfs != nullptr && rootfs->is_object() ? rootfs->get_object().if_contains("diff_ids") : nullptr;
  if (ids == nullptr || !ids->is_array()) return fail(Code::InvalidRequest, "its configuration has no rootfs.diff_ids");
  ids->get_array().emplace_back(layer.diff_id.to_string());
  (*object)["created"] = created;
  // A history that does not tell of every layer would be wrong; without one nothing is claimed.
  json::value* history = object->if_contains("history");
  if (history != nullptr && history->is_array() && !history->get_array().empty()) {
    history->get_array().emplace_back(
        json::object{{"created", created}, {"created_by", "opensandbox snapshot"}, {"comment", comment}});
  }
  return json::serialize(*config);
}

}  // namespace

std::string chain_id(std::span<const image::Digest> diff_ids) {
  std::string chain;
  for (const image::Digest& each : diff_ids) {
    chain = chain.empty() ? each.to_string() : image::Digest::of(chain + " " + each.to_string()).to_string();
  }
  return chain;
}

Result<CommittedImage> commit_onto(const BaseImage& base, const NewLayer& layer, const std::string& created,
                                   const std::string& comment) {
  CommittedImage out;
  auto config = config_onto(base, layer, created, comment);
  if (!config) return with_context("image " + base.name, config.error());
  out.config = std::move(*config);
  out.manifest.config = describe(image::kOciConfigType, out.config);
  out.manifest.layers = base.layers;
  out.manifest.layers.push_back(layer.descriptor);
  if (out.manifest.layers.size() > image::kMaxLayers) {
    return fail(Code::Unsupported, "image " + base.name + ": it has as many layers as an image can have");
  }
  for (image::Descriptor& each : out.manifest.layers) {
    auto type = oci_layer_type(each.media_type);
    if (!type) return with_context("image " + base.name, type.error());
    each.media_type = std::move(*type);
  }
  out.manifest_text = image::oci_manifest(out.manifest);
  out.target = describe(image::kOciManifestType, out.manifest_text);
  const std::string key = "containerd.io/gc.ref.content.";
  out.references[key + "0"] = out.manifest.config.digest.to_string();
  for (std::size_t i = 0; i < out.manifest.layers.size(); ++i) {
    out.references[key + std::to_string(i + 1)] = out.manifest.layers[i].digest.to_string();
  }
  return out;
}

std::vector<Mount> only_reading(std::vector<Mount> mounts) {
  for (Mount& mount : mounts) {
    if (mount.type != "overlay") {
      std::erase(mount.options, "rw");
      if (std::ranges::find(mount.options, "ro") == mount.options.end()) mount.options.emplace_back("ro");
      continue;
    }
    std::string upper;
    std::erase_if(mount.options, [&](const std::string& option) {
      if (option.starts_with("upperdir=")) upper = option.substr(option.find('=') + 1);
      return option.starts_with("upperdir=") || option.starts_with("workdir=");
    });
    for (std::string& option : mount.options) {
      constexpr std::string_view kLower = "lowerdir=";
      if (!upper.empty() && option.starts_with(kLower)) option.insert(kLower.size(), upper + ":");
    }
  }
  return mounts;
}

}  // namespace osb::containerd
