#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "api/lifecycle_create.h"
#include "base/error.h"

namespace osb::runtime {

// The value of X-Registry-Auth for a pull: the request's login, else what the docker configuration file at
// `credentials` has for the image's registry ("auths"; credential helpers are not asked), else "".
Result<std::string> registry_auth(const std::string& image, const std::optional<api::ImageLogin>& login,
                                  const std::filesystem::path& credentials);

}  // namespace osb::runtime
