#include "containerd/grpc_frames.h"

#include <cstdint>

namespace osb::containerd {
namespace {

constexpr std::size_t kPrefix = 5;

std::size_t length_of(std::string_view prefix) {
  std::uint32_t length = 0;
  for (std::size_t i = 1; i < kPrefix; ++i) length = length << 8 | static_cast<unsigned char>(prefix[i]);
  return length;
}

}  // namespace

std::string grpc_frame(std::string_view message) {
  std::string out(1, '\0');
  const auto length = static_cast<std::uint32_t>(message.size());
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(length >> shift & 0xff);
  out += message;
  return out;
}

bool GrpcFrames::ready() const {
  const std::string_view here = rest();
  if (here.empty()) return false;
  if (here[0] != 0) return true;
  if (here.size() < kPrefix) return false;
  const std::size_t length = length_of(here);
  return length > kMaxMessage || here.size() - kPrefix >= length;
}

Result<std::optional<std::string>> GrpcFrames::next() {
  if (!ready()) return std::nullopt;
  const std::string_view here = rest();
  if (here[0] != 0) return fail(Code::Unsupported, "an answer is compressed, which was not asked for");
  const std::size_t length = length_of(here);
  if (length > kMaxMessage) return fail(Code::TooLarge, "an answer is longer than 16 MiB");
  std::string out(here.substr(kPrefix, length));
  taken_ += kPrefix + length;
  if (taken_ == bytes_.size() || taken_ > kMaxMessage) {
    bytes_.erase(0, taken_);
    taken_ = 0;
  }
  return out;
}

}  // namespace osb::containerd
