#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/error.h"

namespace osb::api {

// POST /internal/init: what an execd that was started ahead of its sandbox has to know.
struct InitializeExecd {
  std::string sandbox_id;       // at most 128 bytes
  std::int64_t generation = 0;  // above 0
  bool restart_entrypoint = false;
  std::string access_token_hash;  // 64 hexadecimal digits of a SHA-256, in lower case; empty: no token
  std::map<std::string, std::string> envs;
  std::map<std::string, std::string> telemetry_attributes;  // at most 64
  std::string lifecycle;                                    // as JSON, for decode_hooks(); empty: none
};

// Errors as in api/execd_requests.h.
Result<InitializeExecd> decode_initialize_execd(std::string_view body);

}  // namespace osb::api
