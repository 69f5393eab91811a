#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <sys/types.h>

#include "base/error.h"

namespace osb::cli {

struct PortHolder {
  pid_t pid = 0;  // 0: not readable for this user
  std::string name;
};

// The process that listens on this TCP port of 127.0.0.1 or of all addresses.
std::optional<PortHolder> find_port_holder(std::uint16_t port);

// Code::Conflict when nothing can listen on 127.0.0.1:PORT: names the process that does and a port that is free.
Result<void> check_port_is_free(std::uint16_t port);

}  // namespace osb::cli
