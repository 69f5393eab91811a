#pragma once

#include "http/router.h"
#include "sandboxd/image/image_service.h"
#include "sandboxd/sandbox/host_sandboxes.h"

namespace osb::sandboxd {

// The API on the Unix socket (docs/sandboxd.md). Decode, call, encode: the rules live in the manager and the services,
// which outlive the router. Errors are {"code","message"}.
void add_sandbox_routes(http::Router& router, HostSandboxes& sandboxes);
void add_image_routes(http::Router& router, ImageService& images);
void add_volume_routes(http::Router& router, BlockingPool& pool, VolumeStore& volumes);

}  // namespace osb::sandboxd
