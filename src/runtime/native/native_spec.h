#pragma once

#include "api/lifecycle_image.h"
#include "api/native.h"
#include "runtime/lifecycle.h"

namespace osb::runtime {

// A lifecycle request in sandboxd's form. Features that native sandboxes lack (ossfs, windows) are 400 with their code.
Result<api::native::CreateSandbox> to_native(const SandboxSpec& spec);

// sandboxd's view of a sandbox, in the terms of every backend.
Instance to_instance(const api::native::SandboxStatus& sandbox);

api::StoredImage to_stored_image(const api::native::Image& image);

}  // namespace osb::runtime
