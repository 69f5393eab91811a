#include "base/id.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <sys/random.h>
#include <system_error>

namespace osb {
namespace {

using Uuid = std::array<unsigned char, 16>;

class RandomPool {
 public:
  void take(std::span<unsigned char> out) {
    if (left_ < out.size()) refill();
    left_ -= out.size();
    std::memcpy(out.data(), bytes_.data() + left_, out.size());
    ::explicit_bzero(bytes_.data() + left_, out.size());
  }

 private:
  void refill() {
    std::size_t got = 0;
    while (got < bytes_.size()) {
      const ssize_t n = ::getrandom(bytes_.data() + got, bytes_.size() - got, 0);
      if (n < 0 && errno != EINTR) throw std::system_error(errno, std::generic_category(), "getrandom");
      if (n > 0) got += static_cast<std::size_t>(n);
    }
    left_ = bytes_.size();
  }

  std::array<unsigned char, 256> bytes_;  // up to 256 bytes getrandom answers whole
  std::size_t left_ = 0;
};

void fill_random(std::span<unsigned char> out) {
  static thread_local RandomPool pool;
  pool.take(out);
}

Uuid random_uuid() {
  Uuid uuid;
  fill_random(uuid);
  uuid[6] = static_cast<unsigned char>(0x40 | (uuid[6] & 0x0f));  // version 4
  uuid[8] = static_cast<unsigned char>(0x80 | (uuid[8] & 0x3f));  // RFC 4122 variant
  return uuid;
}

std::string to_hex(const Uuid& uuid, bool hyphens) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(hyphens ? 36 : 32);
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    if (hyphens && (i == 4 || i == 6 || i == 8 || i == 10)) text.push_back('-');
    text.push_back(kDigits[uuid[i] >> 4]);
    text.push_back(kDigits[uuid[i] & 15]);
  }
  return text;
}

bool is_hex_digit(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

}  // namespace

std::string new_uuid() { return to_hex(random_uuid(), true); }

std::string new_hex_id() { return to_hex(random_uuid(), false); }

std::string new_token() {
  static constexpr char kAlphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::array<unsigned char, 24> bytes;
  fill_random(bytes);
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const unsigned group = static_cast<unsigned>(bytes[i] << 16 | bytes[i + 1] << 8 | bytes[i + 2]);
    for (const int shift : {18, 12, 6, 0}) out.push_back(kAlphabet[group >> shift & 63]);
  }
  ::explicit_bzero(bytes.data(), bytes.size());
  return out;
}

bool is_uuid(std::string_view text) {
  if (text.size() != 36) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool hyphen = i == 8 || i == 13 || i == 18 || i == 23;
    if (hyphen ? text[i] != '-' : !is_hex_digit(text[i])) return false;
  }
  return true;
}

}  // namespace osb
