#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace osb::containerd {

// The longest message that containerd sends.
inline constexpr std::size_t kMaxMessage = 16 << 20;

// A message with gRPC's prefix: not compressed, its length.
std::string grpc_frame(std::string_view message);

// The messages of a stream of gRPC, out of pieces of any size.
class GrpcFrames {
 public:
  void feed(std::string_view piece) { bytes_ += piece; }
  // True if next() has a message or an error.
  bool ready() const;
  // The next message, or nothing if it is not here whole. Code::Unsupported for a compressed one, Code::TooLarge beyond
  // kMaxMessage; all further calls fail the same way.
  Result<std::optional<std::string>> next();
  bool empty() const { return bytes_.size() == taken_; }

 private:
  std::string_view rest() const { return std::string_view(bytes_).substr(taken_); }

  std::string bytes_;
  std::size_t taken_ = 0;
};

}  // namespace osb::containerd
