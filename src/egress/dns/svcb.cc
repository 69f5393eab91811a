#include "egress/dns/svcb.h"

#include <cstdint>

#include "egress/dns/reader.h"

namespace osb::egress {
namespace {

constexpr std::uint16_t kMandatory = 0, kIpv4Hint = 4, kEch = 5, kIpv6Hint = 6;

bool is_removed(std::uint16_t key) { return key == kIpv4Hint || key == kEch || key == kIpv6Hint; }

// False: it demands a parameter that is removed, or is broken.
bool check_mandatory(std::string_view value) {
  WireReader in(value);
  if (in.at_end()) return false;
  while (!in.at_end()) {
    if (is_removed(in.u16()) || in.failed()) return false;
  }
  return true;
}

}  // namespace

std::optional<std::string> without_hints(std::string_view data) {
  WireReader in(data);
  std::string out(in.bytes(2));  // the priority
  // The target is never compressed: a pointer would lead into the message, of which `data` is a part.
  for (;;) {
    const std::uint8_t length = in.u8();
    if (in.failed() || length > kMaxLabel) return std::nullopt;
    out.push_back(static_cast<char>(length));
    if (length == 0) break;
    out += in.bytes(length);
  }
  if (out.size() > 2 + kMaxName) return std::nullopt;
  std::int32_t last = -1;
  while (!in.failed() && !in.at_end()) {
    const std::uint16_t key = in.u16();
    const std::uint16_t size = in.u16();
    const std::string_view value = in.bytes(size);
    if (in.failed() || key <= last) return std::nullopt;  // keys are in order, once each
    last = key;
    if (key == kMandatory && !check_mandatory(value)) return std::nullopt;
    if (is_removed(key)) continue;
    put_u16(out, key);
    put_u16(out, size);
    out += value;
  }
  if (in.failed()) return std::nullopt;
  return out;
}

}  // namespace osb::egress
