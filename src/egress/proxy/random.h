#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <sys/random.h>

namespace osb::egress {

// Random numbers that others cannot guess, from the kernel in small batches. One thread.
class Random {
 public:
  std::uint16_t u16() {
    if (at_ + sizeof(std::uint16_t) > bytes_.size()) fill();
    std::uint16_t out = 0;
    std::memcpy(&out, bytes_.data() + at_, sizeof out);
    std::memset(bytes_.data() + at_, 0, sizeof out);
    at_ += sizeof out;
    return out;
  }

 private:
  void fill() {
    // Never short for up to 256 bytes, and never interrupted, once the generator is ready at boot.
    while (::getrandom(bytes_.data(), bytes_.size(), 0) != static_cast<ssize_t>(bytes_.size())) {
    }
    at_ = 0;
  }

  std::array<std::uint8_t, 256> bytes_{};
  std::size_t at_ = 256;
};

}  // namespace osb::egress
