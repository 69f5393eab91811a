#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "image/digest.h"

namespace osb::image {

// Decoders of the documents about an image in registries and archives: OCI's and Docker's (schema 2), which differ only
// in their media types. Errors are Code::InvalidRequest with the field's JSON pointer; well-formed documents that we do
// not support are Code::Unsupported. Strings hold no NUL byte. All limits are far above what real images have.

inline constexpr std::size_t kMaxManifestBytes = 4 << 20;
inline constexpr std::size_t kMaxConfigBytes = 8 << 20;
inline constexpr std::size_t kMaxLayers = 500;  // what overlayfs can stack
inline constexpr std::size_t kMaxIndexEntries = 1000;

struct Descriptor {
  std::string media_type;
  Digest digest;
  std::uint64_t size = 0;
  bool operator==(const Descriptor&) const = default;
};

// As GOOS, GOARCH and the processor's level: linux/arm/v7.
struct Platform {
  std::string os, architecture, variant;
  std::string to_string() const;
  bool operator==(const Platform&) const = default;
};
// The one this program was built for.
Platform host_platform();
// "linux/arm64", "linux/arm/v7", "arm64"; usual other names (x86_64, aarch64) are understood.
Result<Platform> parse_platform(std::string_view text);

struct Manifest {
  Descriptor config;
  std::vector<Descriptor> layers;  // lowest first
};

struct Index {
  struct Entry {
    Descriptor manifest;
    Platform platform;  // empty where the index does not say
    std::string name;   // of the image, where an archive's index says it: "debian:12"; else empty
  };
  std::vector<Entry> entries;
};

// `media_type` is what the transport said (Content-Type), which may be empty; the document's own mediaType must agree.
// A document that could be read both ways is refused: two readers of one digest must not see two images.
Result<std::variant<Manifest, Index>> decode_manifest(std::string_view text, std::string_view media_type = "");

// manifest.json of `docker save`: names of entries of the archive.
struct DockerArchiveImage {
  std::string config;
  std::vector<std::string> tags;    // "debian:12"
  std::vector<std::string> layers;  // lowest first
};
Result<std::vector<DockerArchiveImage>> decode_docker_archive(std::string_view text);

// The manifest to run on `wanted`: of the right os and architecture with the same level of processor, or the nearest
// lower one. Code::NotFound names what there is.
Result<Descriptor> choose_platform(const Index& index, const Platform& wanted);

struct ImageConfig {
  Platform platform;
  std::vector<std::string> env;  // "NAME=value" each, names not empty
  std::vector<std::string> entrypoint, cmd;
  std::string user;                     // "", "name", "1000:1000"
  std::string working_dir;              // "" or absolute
  std::set<std::string> exposed_ports;  // "80/tcp"
  std::set<std::string> volumes;
  std::map<std::string, std::string> labels;
  std::string stop_signal;       // "SIGTERM", "15"
  std::vector<Digest> diff_ids;  // of the uncompressed layers, lowest first
};

Result<ImageConfig> decode_image_config(std::string_view text);

// Code::NotFound if an image for `is` cannot run on `wanted`. A config that does not say can.
Result<void> check_platform(const Platform& is, const Platform& wanted);

// True for layers that can be unpacked: tar, plain or with gzip or zstd. Encrypted ones and artifacts are not.
bool is_layer_media_type(std::string_view media_type);

}  // namespace osb::image
