#include "containerd/commit/image_push.h"

#include <chrono>
#include <functional>
#include <utility>

#include "async/timer.h"
#include "base/backoff.h"
#include "base/log.h"
#include "image/image_pusher.h"

namespace osb::containerd {
namespace {

constexpr std::chrono::milliseconds kFirstPause(200), kLastPause(6400);

// `attempt` outlives the call.
net::awaitable<Result<void>> patiently(int retries, const std::function<net::awaitable<Result<void>>()>& attempt) {
  Backoff pause(kFirstPause, kLastPause);
  for (int i = 0;; ++i) {
    auto done = co_await attempt();
    const bool may_work_later = !done && (done.error().code == Code::Unavailable || done.error().code == Code::Timeout);
    if (!may_work_later || i >= retries) co_return done;
    log_warn("push tried again", {{"error", done.error().message}});
    if (!co_await sleep_for(pause.next())) co_return done;
  }
}

net::awaitable<Result<void>> push_blob(Client& client, image::ImagePusher& pusher, image::Descriptor blob) {
  const auto there = co_await pusher.has(blob.digest);
  if (!there) co_return Failure(there.error());
  if (*there) co_return Result<void>();
  const auto here = co_await client.blob(blob.digest);
  if (!here && here.error().code == Code::NotFound) {
    co_return fail(Code::NotFound,
                   "layer " + blob.digest.to_string() +
                       " of the container's image is neither in the registry nor in containerd: set "
                       "discard_unpacked_layers = false in containerd's settings and pull the image again");
  }
  if (!here) co_return Failure(here.error());
  const image::ImagePusher::Open open = [&] { return client.open_blob(blob); };
  co_return co_await pusher.upload(blob, open);
}

}  // namespace

net::awaitable<Result<void>> push_image(Client& client, http::Client& http, BlockingPool& pool,
                                        image::Reference reference, image::RegistryAccess access,
                                        const CommittedImage& image) {
  const int retries = access.retries;
  access.push = true;
  image::RegistryClient registry(http, pool, reference, std::move(access));
  image::ImagePusher pusher(registry, reference);
  std::vector<image::Descriptor> blobs = image.manifest.layers;
  blobs.push_back(image.manifest.config);
  for (const image::Descriptor& blob : blobs) {
    auto sent = co_await patiently(retries, [&] { return push_blob(client, pusher, blob); });
    if (!sent) co_return sent;
  }
  co_return co_await patiently(retries, [&] { return pusher.finish(reference.tag, image.manifest_text); });
}

}  // namespace osb::containerd
