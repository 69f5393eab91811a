#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "sys/passwd.h"
#include "sys/spawn.h"

namespace osb::execd {

// Makes `plan` run as the user that a request names, by name or by number. A request without a user changes nothing. A
// name that is not in /etc/passwd is Code::InvalidRequest.
Result<void> set_account(sys::UserDatabase& users, const std::string& name, std::optional<std::uint32_t> uid,
                         std::optional<std::uint32_t> gid, sys::SpawnPlan& plan);

}  // namespace osb::execd
