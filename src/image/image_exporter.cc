#include "image/image_exporter.h"

#include <set>
#include <utility>

#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include "api/json.h"
#include "archive/tar_entry.h"

namespace osb::image {

namespace {

namespace json = api::json;

constexpr const char* kManifestType = "application/vnd.oci.image.manifest.v1+json";
constexpr const char* kIndexType = "application/vnd.oci.image.index.v1+json";
constexpr const char* kConfigType = "application/vnd.oci.image.config.v1+json";
constexpr const char* kLayerType = "application/vnd.oci.image.layer.v1.tar";

struct Blob {
  Digest digest;
  std::uint64_t size = 0;
  std::string path() const { return "blobs/sha256/" + digest.hex(); }
  json::value descriptor(const char* type) const {
    return {{"mediaType", type}, {"digest", digest.to_string()}, {"size", size}};
  }
};

Blob blob_of(std::string_view text) { return {Digest::of(text), text.size()}; }

// "debian:latest": here Docker wants the tag spelled out.
std::string docker_tag(Reference name) {
  const std::string tag = std::exchange(name.tag, "latest");
  return name.familiar() + ":" + tag;
}

// The configuration as it came, but for the layers. Its history keeps to their number.
Result<std::string> rewrite_config(std::string_view text, const std::vector<Blob>& layers) {
  auto value = api::parse_json(text);
  if (!value) return with_context("image config", value.error());
  json::object* config = value->if_object();
  if (config == nullptr) return fail(Code::InvalidRequest, "image config: expected an object");
  json::array ids;
  for (const Blob& layer : layers) ids.emplace_back(layer.digest.to_string());
  (*config)["rootfs"] = {{"type", "layers"}, {"diff_ids", std::move(ids)}};
  if (json::value* history = config->if_contains("history"); history != nullptr && history->is_array()) {
    std::size_t known = 0;
    for (const json::value& step : history->get_array()) {
      const json::object* o = step.if_object();
      const json::value* empty = o != nullptr ? o->if_contains("empty_layer") : nullptr;
      known += empty == nullptr || *empty != json::value(true);
    }
    for (; known < layers.size(); ++known) history->get_array().push_back({{"created_by", "opensandbox"}});
    if (known > layers.size()) config->erase("history");
  }
  return json::serialize(*value);
}

// Writes the entries of the archive; the time of all is zero, so that the same image gives the same archive.
class ArchiveWriter {
 public:
  using Type = archive::TarEntry::Type;
  explicit ArchiveWriter(ByteSink& sink) : sink_(sink) {}

  Result<void> write(std::string_view bytes) {
    written_ += bytes.size();
    return sink_(bytes);
  }
  Result<void> directory(const std::string& path) { return entry(path + "/", Type::Directory, 0); }
  Result<void> file(const std::string& path, std::string_view text) {
    if (auto done = entry(path, Type::File, text.size()); !done) return done;
    if (auto done = write(text); !done) return done;
    return pad(text.size());
  }
  Result<void> entry(const std::string& path, Type type, std::uint64_t size) {
    archive::TarEntry made;
    made.type = type;
    made.path = path;
    made.size = size;
    made.mode = type == Type::Directory ? 0755 : 0644;
    std::string header;
    archive::append_tar_header(header, made);
    return write(header);
  }
  Result<void> pad(std::uint64_t size) { return write(std::string(archive::tar_padding(size), '\0')); }
  std::uint64_t written() const { return written_; }

 private:
  ByteSink& sink_;
  std::uint64_t written_ = 0;
};

Result<void> write_layer_blob(ArchiveWriter& out, int root, const Blob& blob) {
  if (auto done = out.entry(blob.path(), ArchiveWriter::Type::File, blob.size); !done) return done;
  const Failure changed = fail(Code::Conflict, "export: a layer changed while it was read");
  std::uint64_t seen = 0;
  const auto write = [&](std::string_view bytes) -> Result<void> {
    seen += bytes.size();
    if (seen > blob.size) return changed;
    return out.write(bytes);
  };
  auto layer = write_layer(root, TreeKind::Overlay, write, Holes::Fill);
  if (!layer) return Failure(layer.error());
  if (layer->diff_id != blob.digest) return changed;
  return out.pad(blob.size);
}

}  // namespace

Result<ExportedImage> export_image(const ExportImage& image, ByteSink sink) {
  std::vector<Blob> layers;
  for (const int root : image.layers) {
    const auto only_sum = [](std::string_view) { return Result<void>(); };
    auto layer = write_layer(root, TreeKind::Overlay, only_sum, Holes::Fill);
    if (!layer) return with_context("export", layer.error());
    layers.push_back({layer->diff_id, layer->bytes});
  }
  auto config = rewrite_config(image.config, layers);
  if (!config) return Failure(config.error());
  const Blob config_blob = blob_of(*config);

  json::array layer_descriptors, layer_paths, tags;
  for (const Blob& layer : layers) {
    layer_descriptors.push_back(layer.descriptor(kLayerType));
    layer_paths.emplace_back(layer.path());
  }
  const std::string manifest = json::serialize(json::value{{"schemaVersion", 2},
                                                           {"mediaType", kManifestType},
                                                           {"config", config_blob.descriptor(kConfigType)},
                                                           {"layers", std::move(layer_descriptors)}});
  const Blob manifest_blob = blob_of(manifest);
  json::array entries;
  for (const Reference& name : image.names) {
    if (name.digest || name.tag.empty()) {
      return fail(Code::InvalidRequest, "export: " + name.familiar() + ": a name with a tag is needed");
    }
    json::value entry = manifest_blob.descriptor(kManifestType);
    entry.get_object()["annotations"] = {{"io.containerd.image.name", name.to_string()},
                                         {"org.opencontainers.image.ref.name", name.tag}};
    entries.push_back(std::move(entry));
    tags.emplace_back(docker_tag(name));
  }
  if (entries.empty()) entries.push_back(manifest_blob.descriptor(kManifestType));
  const std::string index =
      json::serialize(json::value{{"schemaVersion", 2}, {"mediaType", kIndexType}, {"manifests", std::move(entries)}});
  const std::string docker = json::serialize(json::value(json::array{
      {{"Config", config_blob.path()}, {"RepoTags", std::move(tags)}, {"Layers", std::move(layer_paths)}}}));

  ArchiveWriter out(sink);
  const auto head = [&]() -> Result<void> {
    if (auto done = out.file("oci-layout", R"({"imageLayoutVersion":"1.0.0"})"); !done) return done;
    if (auto done = out.file("index.json", index); !done) return done;
    if (auto done = out.file("manifest.json", docker); !done) return done;
    if (auto done = out.directory("blobs"); !done) return done;
    if (auto done = out.directory("blobs/sha256"); !done) return done;
    if (auto done = out.file(manifest_blob.path(), manifest); !done) return done;
    return out.file(config_blob.path(), *config);
  };
  if (auto done = head(); !done) return Failure(done.error());
  ExportedImage made{manifest_blob.digest, std::move(*config), {}, 0};
  std::set<Digest> written;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    made.diff_ids.push_back(layers[i].digest);
    if (!written.insert(layers[i].digest).second) continue;
    if (auto done = write_layer_blob(out, image.layers[i], layers[i]); !done) return Failure(done.error());
  }
  if (auto done = out.write(std::string(archive::kTarEndBytes, '\0')); !done) return Failure(done.error());
  made.bytes = out.written();
  return made;
}

}  // namespace osb::image
