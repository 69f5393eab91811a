#pragma once

#include <string>
#include <vector>

#include "config/server_config.h"

namespace osb::config {

// What differs between two configurations, as "[section] key", or "[section]" where only the whole can be told.
struct Changes {
  std::vector<std::string> live;     // can be taken over while the server runs
  std::vector<std::string> restart;  // takes effect with the next start
};
Changes compare(const ServerConfig& running, const ServerConfig& wanted);

}  // namespace osb::config
