#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace osb {

// SipHash-2-4. Without the key nobody finds two texts with the same hash, so strangers may choose what is hashed.
class KeyedHash {
 public:
  using Key = std::array<std::uint64_t, 2>;

  KeyedHash();  // with a random key
  explicit KeyedHash(Key key) : key_(key) {}

  std::uint64_t operator()(std::string_view text) const;

 private:
  Key key_;
};

}  // namespace osb
