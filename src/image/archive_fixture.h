#pragma once

// Archives of images as Docker and OCI tools write them, made by hand.

#include <string>
#include <vector>

#include <fmt/format.h>

#include "image/digest.h"
#include "image/layer_fixture.h"
#include "image/manifest.h"

namespace osb::image::testing {

inline std::string join_quoted(const std::vector<std::string>& items) {
  std::string out;
  for (const std::string& item : items) out += (out.empty() ? "\"" : ",\"") + item + "\"";
  return out;
}

// A configuration for layers given as uncompressed tars.
inline std::string config_for(const std::vector<std::string>& tars,
                              const std::string& architecture = host_platform().architecture) {
  std::vector<std::string> ids;
  for (const std::string& tar : tars) ids.push_back(Digest::of(tar).to_string());
  return fmt::format(
      R"({{"os":"linux","architecture":"{}","config":{{"Env":["A=b"],"Cmd":["sh"]}},"rootfs":{{"type":"layers","diff_ids":[{}]}}}})",
      architecture, join_quoted(ids));
}

inline std::string blob_path(const std::string& bytes) { return "blobs/sha256/" + Digest::of(bytes).hex(); }

inline std::string descriptor(const std::string& bytes, const std::string& type, const std::string& more = "") {
  return fmt::format(R"({{"mediaType":"{}","digest":"{}","size":{}{}}})", type, Digest::of(bytes).to_string(),
                     bytes.size(), more);
}

inline constexpr const char* kOciManifestType = "application/vnd.oci.image.manifest.v1+json";
inline constexpr const char* kOciIndexType = "application/vnd.oci.image.index.v1+json";

inline std::string manifest_for(const std::string& config, const std::vector<std::string>& blobs,
                                const std::string& layer_type = "application/vnd.oci.image.layer.v1.tar") {
  std::string layers;
  for (const std::string& blob : blobs) layers += (layers.empty() ? "" : ",") + descriptor(blob, layer_type);
  return fmt::format(R"({{"schemaVersion":2,"mediaType":"{}","config":{},"layers":[{}]}})", kOciManifestType,
                     descriptor(config, "application/vnd.oci.image.config.v1+json"), layers);
}

inline std::string index_of(const std::vector<std::string>& descriptors) {
  std::string all;
  for (const std::string& one : descriptors) all += (all.empty() ? "" : ",") + one;
  return fmt::format(R"({{"schemaVersion":2,"mediaType":"{}","manifests":[{}]}})", kOciIndexType, all);
}

inline std::string platform(const std::string& architecture) {
  return fmt::format(R"(,"platform":{{"os":"linux","architecture":"{}"}})", architecture);
}
inline std::string ref_name(const std::string& name) {
  return fmt::format(R"(,"annotations":{{"org.opencontainers.image.ref.name":"{}"}})", name);
}

// An archive as `docker save` of versions before 25 writes it.
inline Tar docker_archive(const std::string& tag, const std::vector<std::string>& tars) {
  Tar out;
  std::vector<std::string> paths;
  for (const std::string& tar : tars) {
    const std::string id = Digest::of("layer" + tar).hex();
    out.directory(id + "/").file(id + "/VERSION", "1.0").file(id + "/layer.tar", tar);
    paths.push_back(id + "/layer.tar");
  }
  const std::string config = config_for(tars);
  out.file(Digest::of(config).hex() + ".json", config);
  out.file("manifest.json",
           fmt::format(R"([{{"Config":"{}.json","RepoTags":{},"Layers":[{}]}}])", Digest::of(config).hex(),
                       tag.empty() ? "null" : "[\"" + tag + "\"]", join_quoted(paths)));
  return out;
}

// An OCI image layout with one image, its blobs as given (compressed or not).
inline Tar oci_archive(const std::string& name, const std::vector<std::string>& tars,
                       const std::vector<std::string>& blobs) {
  const std::string config = config_for(tars), manifest = manifest_for(config, blobs);
  Tar out;
  out.directory("blobs/").directory("blobs/sha256/");
  for (const std::string& blob : blobs) out.file(blob_path(blob), blob);
  out.file(blob_path(config), config).file(blob_path(manifest), manifest);
  out.file("index.json", index_of({descriptor(manifest, kOciManifestType, name.empty() ? "" : ref_name(name))}));
  out.file("oci-layout", R"({"imageLayoutVersion":"1.0.0"})");
  return out;
}

}  // namespace osb::image::testing
