#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace osb {

// Whether a secret is what was given. The time depends on the length of `given` only.
inline bool equal_in_constant_time(std::string_view secret, std::string_view given) {
  volatile std::uint8_t different = secret.size() == given.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const char other = secret.empty() ? '\0' : secret[i % secret.size()];
    different = static_cast<std::uint8_t>(different | static_cast<std::uint8_t>(given[i] ^ other));
  }
  return different == 0;
}

}  // namespace osb
