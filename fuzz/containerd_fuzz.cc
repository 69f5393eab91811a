// Answers of containerd. The first byte says which message the rest is, or in which steps it arrives as a stream of
// gRPC.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "containerd/grpc_frames.h"
#include "containerd/messages.h"

namespace {

using namespace osb::containerd;

struct Read {
  std::vector<std::string> messages;
  bool good = true;
};

Read read(std::string_view bytes, std::size_t step) {
  Read out;
  GrpcFrames frames;
  for (std::size_t at = 0; at < bytes.size() && out.good; at += step) {
    frames.feed(bytes.substr(at, step));
    while (out.good && frames.ready()) {
      const auto message = frames.next();
      out.good = message.has_value();
      if (message && !*message) std::abort();  // it said that there is one
      if (message) out.messages.push_back(**message);
    }
  }
  return out;
}

// A decoded message is the same after it was written and read again.
void check_mounts(std::string_view bytes) {
  const auto mounts = decode_mounts(bytes);
  if (!mounts) return;
  ProtoWriter again;
  for (const Mount& mount : *mounts) again.message(1, mount.encode());
  const auto same = decode_mounts(again.bytes());
  if (!same || *same != *mounts) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 16) {
    case 0:
      (void)decode_containers(bytes);
      break;
    case 1:
      (void)decode_task(bytes);
      break;
    case 2:
      check_mounts(bytes);
      break;
    case 3:
      (void)decode_snapshot(bytes);
      break;
    case 4:
      (void)decode_blob(bytes);
      break;
    case 5:
      (void)decode_diff(bytes);
      break;
    case 6:
      (void)decode_image(bytes);
      break;
    case 7:
      (void)decode_images(bytes);
      break;
    case 8:
      if (const auto piece = decode_piece(bytes); piece && piece->size() > bytes.size()) std::abort();
      break;
    default: {
      const Read whole = read(bytes, bytes.size() + 1), steps = read(bytes, 1 + data[0] / 16);
      if (whole.good != steps.good || whole.messages != steps.messages) std::abort();
    }
  }
  return 0;
}
