#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace osb::policy {

inline constexpr std::chrono::seconds kShortestLifetime{60};
inline constexpr std::chrono::seconds kLongestLifetime{360};

// How long an address stays open after a name resolved to it: a minute longer than the record's TTL, so that a program
// may still connect with an answer that is about to expire.
constexpr std::chrono::seconds open_lifetime(std::uint32_t ttl) {
  return std::clamp(std::chrono::seconds(ttl) + kShortestLifetime, kShortestLifetime, kLongestLifetime);
}

}  // namespace osb::policy
