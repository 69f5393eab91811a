#include "image/image_pusher.h"

#include <chrono>
#include <utility>

#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include "api/json.h"
#include "http/url.h"

namespace osb::image {
namespace {

namespace json = api::json;

json::value descriptor_json(const Descriptor& descriptor) {
  return {{"mediaType", descriptor.media_type}, {"digest", descriptor.digest.to_string()}, {"size", descriptor.size}};
}

http::ClientRequest request(std::string method, std::string target) {
  http::ClientRequest out;
  out.method = std::move(method);
  out.target = std::move(target);
  return out;
}

}  // namespace

std::string oci_manifest(const Manifest& manifest) {
  json::array layers;
  for (const Descriptor& layer : manifest.layers) layers.push_back(descriptor_json(layer));
  return json::serialize(json::value{{"schemaVersion", 2},
                                     {"mediaType", kOciManifestType},
                                     {"config", descriptor_json(manifest.config)},
                                     {"layers", std::move(layers)}});
}

net::awaitable<Result<bool>> ImagePusher::has(Digest blob) {
  const auto look = [&] { return request("HEAD", base_ + "/blobs/" + blob.to_string()); };
  const auto there = co_await answer(look);
  if (!there) co_return Failure(there.error());
  if (there->status == 200) co_return true;
  if (there->status != 404) co_return Failure(registry_refusal(there->status, name_));
  co_return false;
}

net::awaitable<Result<void>> ImagePusher::upload(Descriptor blob, const Open& open) {
  const std::string digest = blob.digest.to_string();
  const auto begin = [&] { return request("POST", base_ + "/blobs/uploads/"); };
  const auto begun = co_await answer(begin);
  if (!begun) co_return Failure(begun.error());
  if (begun->status != 202) co_return Failure(registry_refusal(begun->status, name_));
  auto target = registry_.own_target(begun->headers.get("Location"));
  if (!target) co_return Failure(target.error());
  *target += (target->contains('?') ? "&digest=" : "?digest=") + http::percent_encode(digest);
  const auto put = [&] {
    http::ClientRequest out = request("PUT", *target);
    out.headers.set("Content-Type", "application/octet-stream");
    out.stream = open();
    out.timeouts.head = std::chrono::minutes(10);  // the registry sums it and writes it to its disk
    return out;
  };
  const auto stored = co_await answer(put);
  if (!stored) co_return Failure(stored.error());
  if (stored->status != 201) co_return Failure(registry_refusal(stored->status, name_ + ": blob " + digest));
  co_return Result<void>();
}

net::awaitable<Result<void>> ImagePusher::finish(std::string tag, std::string manifest) {
  const auto put = [&] {
    http::ClientRequest out = request("PUT", base_ + "/manifests/" + tag);
    out.headers.set("Content-Type", kOciManifestType);
    out.body = manifest;
    return out;
  };
  const auto stored = co_await answer(put);
  if (!stored) co_return Failure(stored.error());
  if (stored->status != 201) co_return Failure(registry_refusal(stored->status, name_ + ": manifest"));
  co_return Result<void>();
}

net::awaitable<Result<ImagePusher::Answer>> ImagePusher::answer(const std::function<http::ClientRequest()>& make) {
  auto response = co_await registry_.call(make);
  if (!response) co_return Failure(response.error());
  (void)co_await response->body->read_all(1 << 16);  // gives the connection back
  co_return Answer{response->status, std::move(response->headers)};
}

}  // namespace osb::image
