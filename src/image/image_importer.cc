#include "image/image_importer.h"

#include <ctime>
#include <map>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/time.h"
#include "image/archive_kind.h"
#include "image/archive_spool.h"
#include "image/layer_writer.h"
#include "image/tar_stream.h"
#include "sys/syscall.h"
#include "sys/write_all.h"

namespace osb::image {

namespace {

namespace fs = std::filesystem;

constexpr int kMaxIndexDepth = 4;

std::string blob_name(const Digest& digest) { return "blobs/sha256/" + digest.hex(); }

// The digest that an entry's name promises: "blobs/sha256/<hex>", "<hex>.json".
std::optional<Digest> promised_digest(std::string_view name) {
  constexpr std::string_view kBlobs = "blobs/sha256/", kJson = ".json";
  if (name.starts_with(kBlobs)) {
    name.remove_prefix(kBlobs.size());
  } else if (name.ends_with(kJson)) {
    name.remove_suffix(kJson.size());
  } else {
    return std::nullopt;
  }
  const auto digest = Digest::from_hex(name);
  return digest ? std::optional(*digest) : std::nullopt;
}

// An image of the archive to import, checked except for its layers.
struct Plan {
  std::vector<std::string> names;
  Digest manifest;
  std::string config_text;
  ImageConfig config;
  struct Layer {
    std::string entry;
    std::optional<Digest> digest;
  };
  std::vector<Layer> layers;
};

class Importer {
 public:
  Importer(LayerStore& store, const ArchiveSpool& spool, const ImportOptions& options)
      : store_(store), spool_(spool), options_(options) {}

  Result<std::vector<ImportedImage>> run();

 private:
  Result<std::vector<Plan>> docker_plans() const;
  Result<std::vector<Plan>> oci_plans() const;
  Result<Plan> oci_plan(Descriptor manifest) const;
  Result<std::string> blob(const Descriptor& descriptor, std::string_view what, std::size_t limit) const;
  Result<void> set_config(Plan& plan, std::string text) const;
  Result<void> set_names(std::vector<Plan>& plans) const;
  Result<std::vector<LayerStore::Lease>> unpack(const Plan& plan) const;

  LayerStore& store_;
  const ArchiveSpool& spool_;
  const ImportOptions& options_;
};

Result<void> Importer::set_config(Plan& plan, std::string text) const {
  auto config = decode_image_config(text);
  if (!config) return Failure(config.error());
  if (auto fits = check_platform(config->platform, options_.platform); !fits) return fits;
  if (config->diff_ids.size() != plan.layers.size()) {
    return fail(Code::InvalidRequest, fmt::format("archive: an image of {} layers whose configuration has {}",
                                                  plan.layers.size(), config->diff_ids.size()));
  }
  plan.config_text = std::move(text);
  plan.config = std::move(*config);
  return {};
}

Result<std::vector<Plan>> Importer::docker_plans() const {
  const auto text = spool_.text("manifest.json", kMaxManifestBytes);
  if (!text) return Failure(text.error());
  auto images = decode_docker_archive(*text);
  if (!images) return Failure(images.error());
  std::vector<Plan> out;
  for (DockerArchiveImage& image : *images) {
    auto config = spool_.text(image.config, kMaxConfigBytes);
    if (!config) return Failure(config.error());
    Plan plan;
    plan.names = std::move(image.tags);
    plan.manifest = Digest::of(*config);
    if (const auto promised = promised_digest(image.config); promised && *promised != plan.manifest) {
      return refuse_entry(image.config, "its content has the digest " + plan.manifest.to_string());
    }
    for (std::string& layer : image.layers) {
      auto digest = promised_digest(layer);
      plan.layers.push_back({std::move(layer), digest});
    }
    if (auto set = set_config(plan, std::move(*config)); !set) return with_context(image.config, set.error());
    out.push_back(std::move(plan));
  }
  return out;
}

// A small blob, compared with its descriptor.
Result<std::string> Importer::blob(const Descriptor& descriptor, std::string_view what, std::size_t limit) const {
  const std::string name = blob_name(descriptor.digest);
  if (!spool_.contains(name)) {
    return fail(Code::InvalidRequest, fmt::format("archive: {} {} is missing", what, descriptor.digest.to_string()));
  }
  auto text = spool_.text(name, limit);
  if (!text) return text;
  if (text->size() != descriptor.size) {
    return refuse_entry(name, fmt::format("has {} bytes, expected {}", text->size(), descriptor.size));
  }
  if (const Digest is = Digest::of(*text); is != descriptor.digest) {
    return refuse_entry(name, "its content has the digest " + is.to_string());
  }
  return text;
}

Result<Plan> Importer::oci_plan(Descriptor descriptor) const {
  for (int depth = 0; depth < kMaxIndexDepth; ++depth) {
    const auto text = blob(descriptor, "manifest", kMaxManifestBytes);
    if (!text) return Failure(text.error());
    auto decoded = decode_manifest(*text, descriptor.media_type);
    if (!decoded) return Failure(decoded.error());
    if (const Index* index = std::get_if<Index>(&*decoded)) {
      auto chosen = choose_platform(*index, options_.platform);
      if (!chosen) return Failure(chosen.error());
      descriptor = std::move(*chosen);
      continue;
    }
    const Manifest& manifest = std::get<Manifest>(*decoded);
    Plan plan;
    plan.manifest = descriptor.digest;
    for (const Descriptor& layer : manifest.layers) {
      if (!is_layer_media_type(layer.media_type)) {
        return fail(Code::Unsupported, "archive: a layer of type '" + layer.media_type + "'");
      }
      const std::string name = blob_name(layer.digest);
      std::uint64_t size = 0;
      if (!spool_.contains(name)) {
        return fail(Code::InvalidRequest, "archive: layer " + layer.digest.to_string() + " is missing");
      }
      if (auto file = spool_.open(name, &size); !file) return Failure(file.error());
      if (size != layer.size) return refuse_entry(name, fmt::format("has {} bytes, expected {}", size, layer.size));
      plan.layers.push_back({name, layer.digest});
    }
    auto config = blob(manifest.config, "configuration", kMaxConfigBytes);
    if (!config) return Failure(config.error());
    if (auto set = set_config(plan, std::move(*config)); !set) return Failure(set.error());
    return plan;
  }
  return fail(Code::InvalidRequest, "archive: an index of indexes without end");
}

Result<std::vector<Plan>> Importer::oci_plans() const {
  const auto text = spool_.text("index.json", kMaxManifestBytes);
  if (!text) return Failure(text.error());
  auto decoded = decode_manifest(*text);
  if (!decoded) return with_context("index.json", decoded.error());
  const Index* index = std::get_if<Index>(&*decoded);
  if (index == nullptr) return fail(Code::InvalidRequest, "index.json: a manifest instead of an index");
  // Entries of one name are one image for several platforms.
  std::map<std::string, Index> images;
  for (const Index::Entry& entry : index->entries) images[entry.name].entries.push_back(entry);
  std::vector<Plan> out;
  for (const auto& [name, entries] : images) {
    // The platform of a single entry is known from its configuration, also where the index does not say it.
    auto chosen = entries.entries.size() == 1 ? Result<Descriptor>(entries.entries[0].manifest)
                                              : choose_platform(entries, options_.platform);
    if (!chosen) return with_context(name, chosen.error());
    auto plan = oci_plan(std::move(*chosen));
    if (!plan)
      return name.empty() ? Result<std::vector<Plan>>(Failure(plan.error())) : with_context(name, plan.error());
    if (!name.empty()) plan->names = {name};
    out.push_back(std::move(*plan));
  }
  return out;
}

// Complete names for all images: the caller's or the archive's.
Result<void> Importer::set_names(std::vector<Plan>& plans) const {
  if (plans.empty()) return fail(Code::InvalidRequest, "archive: it holds no image");
  if (options_.name) {
    if (plans.size() > 1) {
      return fail(Code::InvalidRequest,
                  fmt::format("archive: it holds {} images, which cannot all be named {}; give no name", plans.size(),
                              options_.name->familiar()));
    }
    plans[0].names = {options_.name->to_string()};
    return {};
  }
  for (Plan& plan : plans) {
    if (plan.names.empty()) {
      return fail(Code::InvalidRequest,
                  "archive: image " + plan.manifest.to_string() + " has no name in the archive; give one");
    }
    for (std::string& name : plan.names) {
      const auto reference = Reference::parse(name);
      if (!reference) return with_context("archive", reference.error());
      name = reference->to_string();
    }
  }
  return {};
}

Result<std::vector<LayerStore::Lease>> Importer::unpack(const Plan& plan) const {
  std::vector<LayerStore::Lease> out;
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    UniqueFd opened;
    UnpackOptions unpack = options_.unpack;
    unpack.digest = plan.layers[i].digest;
    auto lease = store_.ensure(
        plan.config.diff_ids[i],
        [&]() -> Result<ByteSource> {
          auto file = spool_.open(plan.layers[i].entry);
          if (!file) return Failure(file.error());
          opened = std::move(*file);
          return read_descriptor(opened.get());
        },
        unpack);
    if (!lease) return Failure(lease.error());
    out.push_back(std::move(*lease));
  }
  return out;
}

Result<void> record(LayerStore& store, ImportedImage& image) {
  image.record.created = unix_millis() / 1000;
  image.record.local = true;
  return store.record(image.record);
}

Result<std::vector<ImportedImage>> Importer::run() {
  const bool docker = spool_.contains("manifest.json");
  if (!docker && !spool_.contains("index.json")) {
    return fail(Code::InvalidRequest,
                "archive: neither manifest.json nor index.json in it: not of `docker save` or OCI tools. The "
                "tar of a root directory needs a name for its image");
  }
  auto plans = docker ? docker_plans() : oci_plans();
  if (!plans) return Failure(plans.error());
  if (auto named = set_names(*plans); !named) return Failure(named.error());
  std::vector<ImportedImage> out;
  for (const Plan& plan : *plans) {
    const auto layers = unpack(plan);
    if (!layers) return Failure(layers.error());
    for (const std::string& name : plan.names) {
      out.push_back({{name, plan.manifest, plan.config_text, plan.config.diff_ids}, *layers});
    }
  }
  for (ImportedImage& image : out) {
    if (auto recorded = record(store_, image); !recorded) return Failure(recorded.error());
  }
  return out;
}

// An image of one layer, with a configuration that says nothing but the platform.
Result<ImportedImage> import_layer(LayerStore& store, ByteSource source, const Reference& name,
                                   const Platform& platform, const UnpackOptions& options) {
  auto layer = store.add(std::move(source), options);
  if (!layer) return Failure(layer.error());
  ImportedImage out;
  out.record.name = name.to_string();
  out.record.config =
      fmt::format(R"({{"architecture":"{}","os":"{}","config":{{}},"rootfs":{{"type":"layers","diff_ids":["{}"]}}}})",
                  platform.architecture, platform.os, layer->diff_id().to_string());
  out.record.manifest = Digest::of(out.record.config);
  out.record.diff_ids = {layer->diff_id()};
  out.layers = {std::move(*layer)};
  if (auto recorded = record(store, out); !recorded) return Failure(recorded.error());
  return out;
}

}  // namespace

Result<std::vector<ImportedImage>> import_archive(LayerStore& store, ByteSource source, const ImportOptions& options) {
  if (options.name && archive_kind(source) == ArchiveKind::Root) {
    auto made = import_layer(store, std::move(source), *options.name, options.platform, options.unpack);
    if (!made) return with_context("root directory", made.error());
    std::vector<ImportedImage> out;
    out.push_back(std::move(*made));
    return out;
  }
  const auto scratch = store.scratch();
  if (!scratch) return Failure(scratch.error());
  ArchiveSpool spool(scratch->path(), options.max_bytes);
  if (auto read = read_tar("archive", std::move(source), options.max_bytes, spool); !read) return Failure(read.error());
  return Importer(store, spool, options).run();
}

Result<ImportedImage> import_directory(LayerStore& store, UniqueFd root, const Reference& name,
                                       const UnpackOptions& options) {
  return import_layer(store, layer_source(std::move(root), TreeKind::Plain), name, host_platform(), options);
}

}  // namespace osb::image
