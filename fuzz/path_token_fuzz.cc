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
  // A secret behind the prefix is not shown, with any text before it.
  constexpr std::string_view kSecret = "\x01\x02\x03 secret";
  const std::string path = (input + "/access-token/").append(kSecret) + "/ping";
  if (input.find(kSecret) == std::string::npos && loggable_path(path).find(kSecret) != std::string::npos) std::abort();
  return 0;
}
