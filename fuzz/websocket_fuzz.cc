// The frame decoder: any bytes end in events or a violation, and the result does not depend on how they are cut.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "http/websocket_frame.h"

namespace {

using osb::http::ws::FrameDecoder;
using osb::http::ws::Role;
using Kind = FrameDecoder::Event::Kind;

constexpr std::size_t kLimit = 4096;

std::string transcript(Role role, std::string_view bytes, std::size_t piece) {
  FrameDecoder decoder(role, kLimit);
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += piece) {
    std::string_view part = bytes.substr(i, piece);
    for (;;) {
      const FrameDecoder::Event event = decoder.next(part);
      if (event.kind == Kind::NeedMore) {
        if (!part.empty()) std::abort();
        break;
      }
      if (event.payload.size() > kLimit) std::abort();
      out += std::to_string(static_cast<int>(event.kind)) + std::to_string(event.code) + event.payload + '\n';
      if (event.kind == Kind::Violation) return out;
    }
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const Role role = (data[0] & 1) != 0 ? Role::Client : Role::Server;
  const std::size_t piece = 1 + data[1] % 64;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  if (transcript(role, bytes, piece) != transcript(role, bytes, bytes.size() + 1)) std::abort();
  return 0;
}
