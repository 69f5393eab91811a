#pragma once

#include "async/blocking_pool.h"
#include "async/net.h"
#include "containerd/client.h"
#include "containerd/commit/committed_image.h"
#include "http/client.h"
#include "image/reference.h"
#include "image/registry_client.h"

namespace osb::containerd {

// Sends an image of the content store to the registry of `reference`, which has a tag. Blobs that the registry has are
// not sent; what fails because of the network or an overloaded registry is tried again for some seconds. All references
// outlive the call.
net::awaitable<Result<void>> push_image(Client& client, http::Client& http, BlockingPool& pool,
                                        image::Reference reference, image::RegistryAccess access,
                                        const CommittedImage& image);

}  // namespace osb::containerd
