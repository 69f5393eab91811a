#pragma once

#include <filesystem>

#include "base/error.h"
#include "vault/secret.h"

namespace osb::credentials {

// A file that holds one secret. Code::Unavailable: it cannot be read, other users of the machine may read it, or its
// content is no value. The file is read anew each time, so a replaced one counts at once.
Result<vault::SecretText> read_secret_file(const std::filesystem::path& path);

}  // namespace osb::credentials
