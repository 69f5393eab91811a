#include "image/manifest.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "api/json.h"

namespace osb::image {

namespace {

using api::ObjectReader;

constexpr std::string_view kOciManifest = "application/vnd.oci.image.manifest.v1+json";
constexpr std::string_view kOciIndex = "application/vnd.oci.image.index.v1+json";
constexpr std::string_view kDockerManifest = "application/vnd.docker.distribution.manifest.v2+json";
constexpr std::string_view kDockerList = "application/vnd.docker.distribution.manifest.list.v2+json";

constexpr std::int64_t kMaxBlobBytes = std::int64_t{1} << 46;
constexpr std::size_t kMaxItems = 10'000;

std::optional<Descriptor> read_descriptor(ObjectReader& in) {
  const std::string media_type = in.optional_string("mediaType").value_or("");
  const std::string text = in.required_string("digest");
  const std::int64_t size = in.required_int64("size", 0, kMaxBlobBytes);
  if (in.failed()) return std::nullopt;
  const auto digest = Digest::parse(text);
  if (!digest) {
    in.reject("digest", "expected sha256:<64 digits>");
    return std::nullopt;
  }
  return Descriptor{media_type, *digest, static_cast<std::uint64_t>(size)};
}

// Other names of one processor, as the package managers of distributions and the kernel write them.
void normalise(Platform& platform) {
  std::string& arch = platform.architecture;
  if (arch == "x86_64" || arch == "x86-64") arch = "amd64";
  if (arch == "aarch64") arch = "arm64";
  if (arch == "i386" || arch == "i686" || arch == "x86") arch = "386";
  if (arch == "armhf" || arch == "armv7l") arch = "arm", platform.variant = "v7";
  if (arch == "armel") arch = "arm", platform.variant = "v6";
  if (arch == "arm64" && (platform.variant == "v8" || platform.variant == "8")) platform.variant.clear();
  if (arch == "amd64" && platform.variant == "v1") platform.variant.clear();
  if (arch == "arm" && platform.variant.empty()) platform.variant = "v7";
}

// "v7" -> 7, "v8.1" -> 8; 0 for none.
int level(std::string_view variant) {
  if (variant.starts_with('v')) variant.remove_prefix(1);
  int value = 0;
  std::from_chars(variant.data(), variant.data() + variant.size(), value);
  return value;
}

enum class Kind { Unknown, Manifest, Index, Other };

Kind kind_of(std::string_view media_type) {
  media_type = media_type.substr(0, media_type.find(';'));
  while (media_type.ends_with(' ')) media_type.remove_suffix(1);
  if (media_type == kOciManifest || media_type == kDockerManifest) return Kind::Manifest;
  if (media_type == kOciIndex || media_type == kDockerList) return Kind::Index;
  // Types that file servers give to any JSON.
  if (media_type.empty() || media_type == "application/json" || media_type == "text/plain" ||
      media_type == "application/octet-stream") {
    return Kind::Unknown;
  }
  return Kind::Other;
}

Result<Manifest> read_manifest(ObjectReader& in) {
  std::optional<Descriptor> config;
  Manifest out{Descriptor{{}, Digest::of(""), 0}, {}};
  if (!in.object("config", [&](ObjectReader& o) { config = read_descriptor(o); })) in.reject("config", "is missing");
  in.array("layers", [&](ObjectReader& o) {
    if (out.layers.size() == kMaxLayers) return o.reject("", "too many layers");
    if (auto layer = read_descriptor(o)) out.layers.push_back(std::move(*layer));
  });
  if (auto done = in.finish(); !done) return Failure(done.error());
  out.config = std::move(*config);
  return out;
}

// containerd's annotation is a whole name; OCI's may be one too, or a tag alone, which names nothing.
std::string image_name(ObjectReader& annotations) {
  if (auto name = annotations.optional_string("io.containerd.image.name")) return *name;
  const std::string name = annotations.optional_string("org.opencontainers.image.ref.name").value_or("");
  return name.find_first_of(":/") == std::string::npos ? "" : name;
}

Result<Index> read_index(ObjectReader& in) {
  Index out;
  in.array("manifests", [&](ObjectReader& o) {
    if (out.entries.size() == kMaxIndexEntries) return o.reject("", "too many manifests");
    Platform platform;
    o.object("platform", [&](ObjectReader& p) {
      platform.os = p.optional_string("os").value_or("");
      platform.architecture = p.optional_string("architecture").value_or("");
      platform.variant = p.optional_string("variant").value_or("");
      normalise(platform);
    });
    std::string name;
    o.object("annotations", [&](ObjectReader& a) { name = image_name(a); });
    if (auto entry = read_descriptor(o)) {
      out.entries.push_back({std::move(*entry), std::move(platform), std::move(name)});
    }
  });
  if (auto done = in.finish(); !done) return Failure(done.error());
  return out;
}

bool has_nul(std::string_view text) { return text.find('\0') != std::string_view::npos; }

std::string plain_string(ObjectReader& in, std::string_view name) {
  std::string out = in.optional_string(name).value_or("");
  if (has_nul(out)) in.reject(name, "holds a NUL byte");
  return out;
}

std::vector<std::string> plain_list(ObjectReader& in, std::string_view name) {
  std::vector<std::string> out = in.string_list(name).value_or(std::vector<std::string>());
  if (out.size() > kMaxItems) in.reject(name, "too many entries");
  if (std::ranges::any_of(out, has_nul)) in.reject(name, "holds a NUL byte");
  return out;
}

// {"80/tcp": {}, ...}: a set, written the way Go has them.
std::set<std::string> key_set(ObjectReader& in, std::string_view name) {
  std::set<std::string> out;
  const api::json::value* value = in.find(name);
  if (value == nullptr) return out;
  const api::json::object* object = value->if_object();
  if (object == nullptr || object->size() > kMaxItems) {
    in.reject(name, "expected an object with few enough keys");
    return out;
  }
  for (const auto& [key, ignored] : *object) {
    if (has_nul(std::string_view(key))) in.reject(name, "holds a NUL byte");
    out.emplace(key);
  }
  return out;
}

void read_run_config(ObjectReader& in, ImageConfig& out) {
  out.env = plain_list(in, "Env");
  for (const std::string& entry : out.env) {
    if (entry.find('=') == 0 || entry.find('=') == std::string::npos) in.reject("Env", "expected NAME=value");
  }
  out.entrypoint = plain_list(in, "Entrypoint");
  out.cmd = plain_list(in, "Cmd");
  out.user = plain_string(in, "User");
  out.working_dir = plain_string(in, "WorkingDir");
  if (!out.working_dir.empty() && !out.working_dir.starts_with('/'))
    in.reject("WorkingDir", "expected an absolute path");
  out.exposed_ports = key_set(in, "ExposedPorts");
  out.volumes = key_set(in, "Volumes");
  if (auto labels = in.string_map("Labels")) out.labels = std::move(*labels);
  if (out.labels.size() > kMaxItems) in.reject("Labels", "too many entries");
  out.stop_signal = plain_string(in, "StopSignal");
}

}  // namespace

std::string Platform::to_string() const { return os + "/" + architecture + (variant.empty() ? "" : "/" + variant); }

Platform host_platform() {
#if defined(__x86_64__)
  return {"linux", "amd64", ""};
#elif defined(__aarch64__)
  return {"linux", "arm64", ""};
#elif defined(__riscv)
  return {"linux", "riscv64", ""};
#else
#error "name this processor as GOARCH does"
#endif
}

Result<Platform> parse_platform(std::string_view text) {
  Platform out;
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == '/') {
      parts.emplace_back();
    } else if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.') {
      parts.back() += c;
    } else {
      return fail(Code::InvalidRequest, "platform: expected os/architecture[/variant]");
    }
  }
  if (parts.size() == 1) parts.insert(parts.begin(), "linux");
  if (parts.size() > 3 || std::ranges::any_of(parts, &std::string::empty)) {
    return fail(Code::InvalidRequest, "platform: expected os/architecture[/variant]");
  }
  out = {parts[0], parts[1], parts.size() == 3 ? parts[2] : ""};
  normalise(out);
  return out;
}

Result<std::variant<Manifest, Index>> decode_manifest(std::string_view text, std::string_view media_type) {
  if (text.size() > kMaxManifestBytes) return fail(Code::TooLarge, "manifest: larger than 4 MiB");
  auto value = api::parse_json(text);
  if (!value) return with_context("manifest", value.error());
  ObjectReader in(*value, {});
  const std::int64_t schema = in.optional_int64("schemaVersion").value_or(2);
  const std::string own = in.optional_string("mediaType").value_or("");
  if (auto shape = in.finish(); !shape) return with_context("manifest", shape.error());
  if (schema != 2) {
    return fail(Code::Unsupported, "manifest: schema " + std::to_string(schema) + " is not supported, only 2");
  }
  const bool has_layers = in.find("layers") != nullptr || in.find("config") != nullptr;
  const bool has_manifests = in.find("manifests") != nullptr;
  if (has_layers == has_manifests) {
    return fail(Code::InvalidRequest, "manifest: expected either config and layers, or manifests");
  }
  const Kind shape = has_layers ? Kind::Manifest : Kind::Index;
  for (const std::string_view type : {media_type, std::string_view(own)}) {
    const Kind said = kind_of(type);
    if (said == Kind::Other) {
      return fail(Code::Unsupported, "manifest: media type " + std::string(type) + " is not supported");
    }
    if (said != Kind::Unknown && said != shape) {
      return fail(Code::InvalidRequest, "manifest: its content does not fit its media type");
    }
  }
  const auto give = [](auto read) -> Result<std::variant<Manifest, Index>> {
    if (!read) return with_context("manifest", read.error());
    return std::move(*read);
  };
  return shape == Kind::Manifest ? give(read_manifest(in)) : give(read_index(in));
}

Result<std::vector<DockerArchiveImage>> decode_docker_archive(std::string_view text) {
  if (text.size() > kMaxManifestBytes) return fail(Code::TooLarge, "manifest.json: larger than 4 MiB");
  auto value = api::parse_json(text);
  if (!value) return with_context("manifest.json", value.error());
  std::vector<DockerArchiveImage> out;
  auto read = api::read_array(*value, {}, [&](ObjectReader& in) {
    DockerArchiveImage image;
    image.config = in.required_string("Config");
    image.tags = plain_list(in, "RepoTags");
    image.layers = plain_list(in, "Layers");
    if (image.layers.size() > kMaxLayers) in.reject("Layers", "too many layers");
    if (out.size() == kMaxIndexEntries) in.reject("", "too many images");
    if (!in.failed()) out.push_back(std::move(image));
  });
  if (!read) return with_context("manifest.json", read.error());
  return out;
}

Result<Descriptor> choose_platform(const Index& index, const Platform& asked) {
  Platform wanted = asked;
  normalise(wanted);
  const Index::Entry* best = nullptr;
  int best_level = -1;
  std::string there;
  for (const Index::Entry& entry : index.entries) {
    const Platform& is = entry.platform;
    if (is.os == "unknown") continue;  // attestations
    if (!there.empty()) there += ", ";
    if (there.size() < 300) there += is.to_string();
    if (is.os != wanted.os || is.architecture != wanted.architecture) continue;
    const int offered = level(is.variant);
    // A processor runs what was built for its own level or a lower one. The first of equals counts.
    if (offered > level(wanted.variant) || offered <= best_level) continue;
    best = &entry;
    best_level = offered;
  }
  // An index of one entry that does not say: what single-platform tools write.
  if (best == nullptr && index.entries.size() == 1 && index.entries[0].platform.os.empty()) best = &index.entries[0];
  if (best != nullptr) return best->manifest;
  return fail(Code::NotFound, "no image for " + wanted.to_string() + "; there is: " + (there.empty() ? "none" : there));
}

Result<ImageConfig> decode_image_config(std::string_view text) {
  if (text.size() > kMaxConfigBytes) return fail(Code::TooLarge, "image config: larger than 8 MiB");
  auto value = api::parse_json(text);
  if (!value) return with_context("image config", value.error());
  ObjectReader in(*value, {});
  ImageConfig out;
  out.platform = {plain_string(in, "os"), plain_string(in, "architecture"), plain_string(in, "variant")};
  normalise(out.platform);
  in.object("config", [&](ObjectReader& o) { read_run_config(o, out); });
  const bool has_root = in.object("rootfs", [&](ObjectReader& o) {
    if (const std::string type = o.required_string("type"); !o.failed() && type != "layers") {
      o.reject("type", "expected layers");
    }
    const auto ids = plain_list(o, "diff_ids");
    if (ids.size() > kMaxLayers) return o.reject("diff_ids", "too many layers");
    for (const std::string& id : ids) {
      const auto digest = Digest::parse(id);
      if (!digest) return o.reject("diff_ids", "expected sha256:<64 digits>");
      out.diff_ids.push_back(*digest);
    }
  });
  if (!has_root) in.reject("rootfs", "is missing");
  if (auto done = in.finish(); !done) return with_context("image config", done.error());
  return out;
}

Result<void> check_platform(const Platform& is, const Platform& asked) {
  Platform wanted = asked;
  normalise(wanted);
  const bool other = (!is.os.empty() && is.os != wanted.os) ||
                     (!is.architecture.empty() && is.architecture != wanted.architecture) ||
                     level(is.variant) > level(wanted.variant);
  if (!other) return {};
  return fail(Code::NotFound, "no image for " + wanted.to_string() + "; there is: " + is.to_string());
}

bool is_layer_media_type(std::string_view media_type) {
  for (const std::string_view base :
       {"application/vnd.oci.image.layer.v1.tar", "application/vnd.oci.image.layer.nondistributable.v1.tar"}) {
    if (!media_type.starts_with(base)) continue;
    const std::string_view suffix = media_type.substr(base.size());
    return suffix.empty() || suffix == "+gzip" || suffix == "+zstd";
  }
  for (const std::string_view base :
       {"application/vnd.docker.image.rootfs.diff.tar", "application/vnd.docker.image.rootfs.foreign.diff.tar"}) {
    if (!media_type.starts_with(base)) continue;
    const std::string_view suffix = media_type.substr(base.size());
    return suffix.empty() || suffix == ".gzip" || suffix == ".zstd";
  }
  return false;
}

}  // namespace osb::image
