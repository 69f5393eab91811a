#pragma once

#include "api/lifecycle_image.h"
#include "api/native.h"
#include "runtime/lifecycle.h"

namespace osb::runtime {

// A lifecycle request as sandboxd wants it. What native sandboxes cannot have (ossfs, windows) is 400 with its code.
Result<api::native::CreateSandbox> to_native(const SandboxSpec& spec);

// What sandboxd says about a sandbox, in the terms of every backend.
Instance to_instance(const api::native::SandboxStatus& sandbox);

api::StoredImage to_stored_image(const api::native::Image& image);

}  // namespace osb::runtime
