#include "http/websocket_key.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <span>
#include <stdexcept>
#include <sys/random.h>

#include "base/base64.h"

namespace osb::http::ws {
namespace {

void sha1_block(std::array<std::uint32_t, 5>& state, const unsigned char* block) {
  std::array<std::uint32_t, 80> w;
  for (std::size_t i = 0; i < 16; ++i) {
    w[i] = std::uint32_t{block[4 * i]} << 24 | std::uint32_t{block[4 * i + 1]} << 16 |
           std::uint32_t{block[4 * i + 2]} << 8 | block[4 * i + 3];
  }
  for (std::size_t i = 16; i < 80; ++i) w[i] = std::rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
  auto [a, b, c, d, e] = state;
  for (std::size_t i = 0; i < 80; ++i) {
    const std::uint32_t mix = i < 20   ? ((b & c) | (~b & d)) + 0x5A827999
                              : i < 40 ? (b ^ c ^ d) + 0x6ED9EBA1
                              : i < 60 ? ((b & c) | (b & d) | (c & d)) + 0x8F1BBCDC
                                       : (b ^ c ^ d) + 0xCA62C1D6;
    const std::uint32_t next = std::rotl(a, 5) + mix + e + w[i];
    e = d, d = c, c = std::rotl(b, 30), b = a, a = next;
  }
  state[0] += a, state[1] += b, state[2] += c, state[3] += d, state[4] += e;
}

std::string sha1(std::string text) {
  const std::uint64_t bits = text.size() * 8;
  text += '\x80';
  while (text.size() % 64 != 56) text += '\0';
  for (int shift = 56; shift >= 0; shift -= 8) text += static_cast<char>(bits >> shift & 0xFF);
  std::array<std::uint32_t, 5> state{0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0};
  for (std::size_t i = 0; i < text.size(); i += 64) {
    sha1_block(state, reinterpret_cast<const unsigned char*>(text.data()) + i);
  }
  std::string digest;
  for (std::size_t i = 0; i < 20; ++i) digest += static_cast<char>(state[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

void fill_random(std::span<unsigned char> into) {
  while (!into.empty()) {
    const ssize_t n = ::getrandom(into.data(), into.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw std::runtime_error("getrandom");
    into = into.subspan(static_cast<std::size_t>(n));
  }
}

}  // namespace

std::string accept_for(std::string_view key) {
  return encode_base64(sha1(std::string(key) + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"));
}

std::string new_key() {
  std::array<unsigned char, 16> bytes;
  fill_random(bytes);
  return encode_base64({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

bool is_key(std::string_view text) {
  return text.size() == 24 && text.ends_with("==") && decode_base64(text).has_value();
}

Mask new_mask() {
  // One system call for many masks.
  thread_local std::array<unsigned char, 256> pool;
  thread_local std::size_t used = pool.size();
  if (used == pool.size()) {
    fill_random(pool);
    used = 0;
  }
  Mask mask;
  std::memcpy(mask.data(), pool.data() + used, mask.size());
  used += mask.size();
  return mask;
}

}  // namespace osb::http::ws
