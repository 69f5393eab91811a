#include "base/keyed_hash.h"

#include <bit>
#include <cstddef>
#include <sys/random.h>

namespace osb {
namespace {

class SipState {
 public:
  explicit SipState(KeyedHash::Key key)
      : a_(key[0] ^ 0x736f6d6570736575),
        b_(key[1] ^ 0x646f72616e646f6d),
        c_(key[0] ^ 0x6c7967656e657261),
        d_(key[1] ^ 0x7465646279746573) {}

  void add(std::uint64_t word) {
    d_ ^= word;
    mix(2);
    a_ ^= word;
  }
  std::uint64_t finish() {
    c_ ^= 0xff;
    mix(4);
    return a_ ^ b_ ^ c_ ^ d_;
  }

 private:
  void mix(int rounds) {
    for (; rounds > 0; --rounds) {
      a_ += b_, b_ = std::rotl(b_, 13) ^ a_, a_ = std::rotl(a_, 32);
      c_ += d_, d_ = std::rotl(d_, 16) ^ c_;
      a_ += d_, d_ = std::rotl(d_, 21) ^ a_;
      c_ += b_, b_ = std::rotl(b_, 17) ^ c_, c_ = std::rotl(c_, 32);
    }
  }

  std::uint64_t a_, b_, c_, d_;
};

// Up to eight bytes, the first one lowest.
std::uint64_t word_of(std::string_view bytes) {
  std::uint64_t out = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) out |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return out;
}

KeyedHash::Key random_key() {
  KeyedHash::Key out;
  // Never short for so few bytes, and never interrupted, once the generator is ready at boot.
  while (::getrandom(out.data(), sizeof out, 0) != static_cast<ssize_t>(sizeof out)) {
  }
  return out;
}

}  // namespace

KeyedHash::KeyedHash() : key_(random_key()) {}

std::uint64_t KeyedHash::operator()(std::string_view text) const {
  SipState state(key_);
  const std::uint64_t size = text.size();
  for (; text.size() >= 8; text.remove_prefix(8)) state.add(word_of(text.substr(0, 8)));
  state.add(word_of(text) | size << 56);
  return state.finish();
}

}  // namespace osb
