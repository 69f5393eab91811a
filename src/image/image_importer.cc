#include "image/image_importer.h"

#include <ctime>
#include <map>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "image/archive_kind.h"
#include "image/layer_writer.h"
#include "image/tar_stream.h"
#include "sys/syscall.h"
#include "sys/write_all.h"

namespace osb::image {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxEntries = 50'000;
constexpr std::size_t kMaxName = 1024;
constexpr int kMaxLinks = 8;
constexpr int kMaxIndexDepth = 4;

Failure refuse(std::string_view entry, std::string_view why) {
  return fail(Code::InvalidRequest, fmt::format("archive entry '{}': {}", entry.substr(0, 200), why));
}

// The name without "." and doubled slashes, relative to `directory`; ".." only as far as the archive reaches.
Result<std::string> normalise(std::string_view directory, std::string_view text) {
  if (text.size() > kMaxName) return refuse(text, "the name is too long");
  std::vector<std::string_view> parts;
  const auto add = [&](std::string_view path) {
    for (std::size_t at = 0; at <= path.size();) {
      const std::size_t end = std::min(path.find('/', at), path.size());
      const std::string_view part = path.substr(at, end - at);
      at = end + 1;
      if (part.empty() || part == ".") continue;
      if (part != "..") {
        parts.push_back(part);
      } else if (parts.empty()) {
        return false;
      } else {
        parts.pop_back();
      }
    }
    return true;
  };
  if (!add(directory) || !add(text)) return refuse(text, "leads out of the archive");
  return fmt::format("{}", fmt::join(parts, "/"));
}

std::string parent_of(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return std::string(path.substr(0, slash == std::string_view::npos ? 0 : slash));
}

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

// The archive's entries: their data in numbered files of a scratch directory, their names in memory only.
class Spool : archive::TarSink {
 public:
  explicit Spool(fs::path directory) : directory_(std::move(directory)) {}

  Result<void> fill(ByteSource source, std::uint64_t limit);
  bool contains(const std::string& name) const { return entries_.contains(name); }
  // Follows links inside the archive. Code::InvalidRequest if it is missing.
  Result<UniqueFd> open(std::string_view name, std::uint64_t* size = nullptr) const;
  Result<std::string> text(std::string_view name, std::size_t limit) const;

 private:
  struct Entry {
    std::size_t file = 0;
    std::uint64_t size = 0;
    std::string link;  // another entry's name, then the rest means nothing
  };
  Result<void> begin(const archive::TarEntry& entry) override;
  Result<void> data(std::uint64_t offset, std::string_view bytes) override;
  Result<void> end() override;
  fs::path path(std::size_t file) const { return directory_ / std::to_string(file); }

  const fs::path directory_;
  std::map<std::string, Entry> entries_;
  std::size_t files_ = 0;
  std::size_t count_ = 0;
  std::uint64_t bytes_ = 0, limit_ = 0;
  // The entry whose contents come; no name: none that counts.
  std::string name_;
  Entry entry_;
  UniqueFd file_;
};

Result<void> Spool::fill(ByteSource source, std::uint64_t limit) {
  limit_ = limit;
  auto read = read_tar("archive", std::move(source), limit, *this);
  return read ? Result<void>() : Failure(read.error());
}

Result<void> Spool::begin(const archive::TarEntry& entry) {
  using Type = archive::TarEntry::Type;
  if (count_++ == kMaxEntries) return fail(Code::TooLarge, "archive: too many entries");
  if (entry.path.empty()) return fail(Code::InvalidRequest, "archive: an entry without a name");
  auto name = normalise("", entry.path);
  if (!name) return Failure(name.error());
  name_.clear();
  file_.reset();
  if (entry.type == Type::Directory) return {};
  entry_ = {};
  if (entry.type == Type::HardLink || entry.type == Type::Symlink) {
    auto to = normalise(entry.type == Type::Symlink ? parent_of(*name) : "", entry.link);
    if (!to) return Failure(to.error());
    entry_.link = std::move(*to);
  } else if (entry.type != Type::File) {
    return refuse(*name, "a kind of file that does not belong into an archive of images");
  } else if (entry.size > limit_ - bytes_) {
    return fail(Code::TooLarge, fmt::format("archive: its files are larger than {} bytes", limit_));
  } else {
    entry_.file = files_++;
    entry_.size = entry.size;
    bytes_ += entry.size;
    auto file = sys::open_at(AT_FDCWD, path(entry_.file), O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (!file) return Failure(file.error());
    file_ = std::move(*file);
  }
  name_ = std::move(*name);
  return {};
}

Result<void> Spool::data(std::uint64_t offset, std::string_view bytes) {
  return sys::write_all_at(file_.get(), offset, bytes, "archive entry");
}

Result<void> Spool::end() {
  if (name_.empty()) return {};
  if (const UniqueFd file = std::move(file_); file && ::ftruncate(file.get(), static_cast<off_t>(entry_.size)) < 0) {
    return sys::from_errno("truncate", errno);
  }
  // As with any tar, the last of several entries of one name counts.
  if (const auto old = entries_.find(name_); old != entries_.end() && old->second.link.empty()) {
    (void)::unlink(path(old->second.file).c_str());
  }
  entries_.insert_or_assign(std::move(name_), std::move(entry_));
  return {};
}

Result<UniqueFd> Spool::open(std::string_view wanted, std::uint64_t* size) const {
  auto name = normalise("", wanted);
  if (!name) return Failure(name.error());
  for (int links = 0; links <= kMaxLinks; ++links) {
    const auto it = entries_.find(*name);
    if (it == entries_.end()) return refuse(wanted, "is missing");
    if (it->second.link.empty()) {
      if (size != nullptr) *size = it->second.size;
      return sys::open_at(AT_FDCWD, path(it->second.file), O_RDONLY);
    }
    *name = it->second.link;
  }
  return refuse(wanted, "a chain of links without end");
}

Result<std::string> Spool::text(std::string_view name, std::size_t limit) const {
  std::uint64_t size = 0;
  const auto file = open(name, &size);
  if (!file) return Failure(file.error());
  if (size > limit) return fail(Code::TooLarge, fmt::format("archive entry '{}': larger than {} bytes", name, limit));
  std::string out(size, '\0');
  for (std::size_t at = 0; at < out.size();) {
    const ssize_t got = ::read(file->get(), out.data() + at, out.size() - at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return sys::from_errno("read archive entry", errno);
    if (got == 0) return fail(Code::Internal, "archive: its scratch file is too short");
    at += static_cast<std::size_t>(got);
  }
  return out;
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
  Importer(LayerStore& store, const Spool& spool, const ImportOptions& options)
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
  const Spool& spool_;
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
      return refuse(image.config, "its content has the digest " + plan.manifest.to_string());
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
    return refuse(name, fmt::format("has {} bytes, expected {}", text->size(), descriptor.size));
  }
  if (const Digest is = Digest::of(*text); is != descriptor.digest) {
    return refuse(name, "its content has the digest " + is.to_string());
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
      if (size != layer.size) return refuse(name, fmt::format("has {} bytes, expected {}", size, layer.size));
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
  image.record.created = static_cast<std::int64_t>(std::time(nullptr));
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
  Spool spool(scratch->path());
  if (auto filled = spool.fill(std::move(source), options.max_bytes); !filled) return Failure(filled.error());
  return Importer(store, spool, options).run();
}

Result<ImportedImage> import_directory(LayerStore& store, UniqueFd root, const Reference& name,
                                       const UnpackOptions& options) {
  return import_layer(store, layer_source(std::move(root), TreeKind::Plain), name, host_platform(), options);
}

}  // namespace osb::image
