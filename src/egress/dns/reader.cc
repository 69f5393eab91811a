#include "egress/dns/reader.h"

#include <algorithm>

namespace osb::egress {
namespace {

constexpr std::size_t kHeaderSize = 12;  // no name begins inside the header

std::uint8_t byte_at(std::string_view bytes, std::size_t at) { return static_cast<std::uint8_t>(bytes[at]); }

}  // namespace

bool WireReader::take(std::size_t count) {
  if (failed_ || left() < count) {
    fail();
    return false;
  }
  at_ += count;
  return true;
}

std::uint8_t WireReader::u8() { return take(1) ? byte_at(message_, at_ - 1) : 0; }

std::uint16_t WireReader::u16() {
  if (!take(2)) return 0;
  return static_cast<std::uint16_t>(byte_at(message_, at_ - 2) << 8 | byte_at(message_, at_ - 1));
}

std::uint32_t WireReader::u32() {
  const std::uint32_t high = u16();
  return high << 16 | u16();
}

std::string_view WireReader::bytes(std::size_t count) {
  return take(count) ? message_.substr(at_ - count, count) : std::string_view();
}

void WireReader::name(NameBuffer& out) {
  out.size = 0;
  std::size_t at = at_;
  std::size_t lowest = at_;  // pointers lead below it
  bool jumped = false;
  for (;;) {
    if (failed_ || at >= message_.size()) return out.size = 0, fail();
    const std::uint8_t length = byte_at(message_, at);
    if ((length & 0xc0) == 0xc0) {
      if (at + 1 >= message_.size()) return out.size = 0, fail();
      const std::size_t target = static_cast<std::size_t>(length & 0x3f) << 8 | byte_at(message_, at + 1);
      if (!jumped) at_ = at + 2;
      if (target >= lowest || target < kHeaderSize) return out.size = 0, fail();
      at = lowest = target;
      jumped = true;
      continue;
    }
    const std::size_t end = at + 1 + length;
    if (length > kMaxLabel || end > message_.size() || out.size + 1 + length > kMaxName) return out.size = 0, fail();
    std::copy_n(message_.data() + at, 1 + length, out.bytes.data() + out.size);
    out.size += 1 + length;
    at = end;
    if (length == 0) break;
  }
  if (!jumped) at_ = at;
}

std::string WireReader::name() {
  NameBuffer buffer;
  name(buffer);
  std::string out(buffer.view());
  for (std::size_t at = 0; at < out.size();) {
    const std::size_t end = at + 1 + static_cast<std::uint8_t>(out[at]);
    for (++at; at < end && at < out.size(); ++at) out[at] = lower_byte(out[at]);
  }
  return out;
}

}  // namespace osb::egress
