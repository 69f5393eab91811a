#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "egress/dns/name.h"

namespace osb::egress {

// Reads a DNS message from left to right. After the first read beyond the end, or of a broken name, failed() is true
// and every further value is zero or empty.
class WireReader {
 public:
  explicit WireReader(std::string_view message) : message_(message) {}

  std::uint8_t u8();
  std::uint16_t u16();
  std::uint32_t u32();
  std::string_view bytes(std::size_t count);
  void skip(std::size_t count) { bytes(count); }

  // A name, without compression and as written. Pointers may only lead to earlier bytes of the message, each to bytes
  // before the last one, so that a name always ends.
  void name(NameBuffer& out);
  // The same in lower case.
  std::string name();

  bool failed() const { return failed_; }
  std::size_t at() const { return at_; }
  std::size_t left() const { return message_.size() - at_; }
  bool at_end() const { return at_ == message_.size(); }

 private:
  bool take(std::size_t count);
  void fail() { failed_ = true, at_ = message_.size(); }

  std::string_view message_;
  std::size_t at_ = 0;
  bool failed_ = false;
};

// Bytes of a message in network order.
inline void put_u16(std::string& out, std::uint16_t value) {
  out.push_back(static_cast<char>(value >> 8));
  out.push_back(static_cast<char>(value));
}
inline void put_u32(std::string& out, std::uint32_t value) {
  put_u16(out, static_cast<std::uint16_t>(value >> 16));
  put_u16(out, static_cast<std::uint16_t>(value));
}
inline void set_u16(char* at, std::uint16_t value) {
  at[0] = static_cast<char>(value >> 8);
  at[1] = static_cast<char>(value);
}
inline void set_u32(char* at, std::uint32_t value) {
  set_u16(at, static_cast<std::uint16_t>(value >> 16));
  set_u16(at + 2, static_cast<std::uint16_t>(value));
}

}  // namespace osb::egress
