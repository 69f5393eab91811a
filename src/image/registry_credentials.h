#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "image/registry_client.h"

namespace osb::image {

// The credentials for one registry ("registry.example.com:5000") in the text of a config.json as `docker login` writes
// it: {"auths": {"HOST": {"auth": "<base64 of user:password>"}}}, or with "username" and "password". Nothing: the file
// has none for this registry. Code::InvalidRequest never repeats the text.
Result<std::optional<Credentials>> credentials_for(std::string_view registry, std::string_view text);

}  // namespace osb::image
