#include "http/websocket_key.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <stdexcept>
#include <sys/random.h>

#include "base/base64.h"
#include "base/sha1.h"

namespace osb::http::ws {
namespace {

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
