#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace osb::cli {

// "LOCAL:REMOTE", "PORT" (the same on both sides) or ":REMOTE" (any free local port).
struct ForwardSpec {
  std::uint16_t local = 0;  // 0: any free one
  std::uint16_t remote = 0;
};

Result<ForwardSpec> parse_forward_spec(std::string_view text);
Result<std::vector<ForwardSpec>> parse_forward_specs(const std::vector<std::string>& texts);

}  // namespace osb::cli
