#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "image/digest.h"

namespace osb::image {

// The name of an image, read and completed the way Docker does it: "debian" is docker.io/library/debian:latest, and
// what stands before the first slash is a registry only if it has a dot, a colon or a capital letter, or is
// "localhost".
struct Reference {
  // Errors are Code::InvalidRequest (Unsupported for a digest that is not SHA-256) and repeat the name.
  static Result<Reference> parse(std::string_view text);

  std::string registry;          // "docker.io", "127.0.0.1:5000", "[::1]:5000"
  std::string repository;        // "library/debian"; safe in a URL as it is
  std::string tag;               // empty only if there is a digest
  std::optional<Digest> digest;  // wins over the tag

  // registry/repository, with tag and digest: equal for all spellings of one image.
  std::string to_string() const;
  // As people write it: without the default registry, "library/" and the tag "latest".
  std::string familiar() const;
  // The name behind /manifests/ in the registry's API: the digest, or else the tag.
  std::string manifest_name() const { return digest ? digest->to_string() : tag; }
  // Where the registry answers: docker.io itself is only a web site.
  std::string registry_host() const { return registry == "docker.io" ? "registry-1.docker.io" : registry; }

  bool operator==(const Reference&) const = default;
};

}  // namespace osb::image
