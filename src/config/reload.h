#pragma once

#include <string>
#include <vector>

#include "config/server_config.h"

namespace osb::config {

// Differences between two configurations, as "[section] key", or as "[section]" where its keys belong together.
struct Changes {
  std::vector<std::string> live;     // taken over
  std::vector<std::string> restart;  // take effect with the next start
};

// Copies the values that a running server can take over. Other keys keep their values, so that the next reload names
// them again.
Changes take_over(ServerConfig& running, ServerConfig wanted);

}  // namespace osb::config
