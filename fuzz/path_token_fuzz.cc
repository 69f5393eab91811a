// A secret at the front of a target: what is cut off and left, and what logs show of it.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "http/path_token.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace osb::http;
  const std::string input(reinterpret_cast<const char*>(data), size);
  std::string target = input;
  const auto secret = take_path_token(target);
  if (!secret && target != input) std::abort();
  if (secret) {
    if (!target.starts_with('/') || secret->find_first_of("/?") != std::string::npos) std::abort();
    const std::string rebuilt = path_of_token(*secret) + target;
    // A slash is all that may have been put in.
    if (rebuilt != input && rebuilt.size() != input.size() + 1) std::abort();
  }
  // Whatever stands around it, a secret behind the prefix is not shown; this one can come from nowhere else.
  const std::string marked = input + "/access-token/\x01\x02\x03marker/ping";
  if (loggable_path(marked).find("\x01\x02\x03marker") != std::string::npos) std::abort();
  return 0;
}
