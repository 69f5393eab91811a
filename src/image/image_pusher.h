#pragma once

#include <functional>
#include <memory>
#include <string>

#include "async/net.h"
#include "base/error.h"
#include "http/body.h"
#include "image/manifest.h"
#include "image/reference.h"
#include "image/registry_client.h"

namespace osb::image {

inline constexpr const char* kOciManifestType = "application/vnd.oci.image.manifest.v1+json";
inline constexpr const char* kOciConfigType = "application/vnd.oci.image.config.v1+json";
inline constexpr const char* kOciLayerType = "application/vnd.oci.image.layer.v1.tar";

// An OCI manifest; the descriptors carry their media types.
std::string oci_manifest(const Manifest& manifest);

// Sends the parts of one image to its registry: blobs in any order, and the manifest, which makes it visible, last.
// Errors as RegistryClient's. The registry client outlives it.
class ImagePusher {
 public:
  ImagePusher(RegistryClient& registry, const Reference& reference)
      : registry_(registry), base_("/v2/" + reference.repository), name_(reference.familiar()) {}

  // True: the registry has the blob.
  net::awaitable<Result<bool>> has(Digest blob);
  // `open` gives the blob's bytes, each time from the beginning; it outlives the call.
  using Open = std::function<std::shared_ptr<http::BodySource>()>;
  net::awaitable<Result<void>> upload(Descriptor blob, const Open& open);
  net::awaitable<Result<void>> finish(std::string tag, std::string manifest);

 private:
  struct Answer {
    int status;
    http::Headers headers;
  };
  // `make` outlives the call.
  net::awaitable<Result<Answer>> answer(const std::function<http::ClientRequest()>& make);

  RegistryClient& registry_;
  const std::string base_, name_;
};

}  // namespace osb::image
