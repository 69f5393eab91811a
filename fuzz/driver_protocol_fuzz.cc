// Frames of a language's driver, which the code in the runner can forge. The first byte says in which steps the bytes
// arrive: that makes no difference, and what is buffered stays below one frame and one step.

#include <cstdint>
#include <cstdlib>
#include <deque>
#include <string_view>

#include "execd/code/driver_protocol.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace osb::execd;
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t step = data[0] + 1U;
  DriverFrameDecoder at_once;
  std::deque<DriverMessage> whole;
  const bool good = at_once.feed(bytes, whole).has_value();
  DriverFrameDecoder in_steps;
  std::deque<DriverMessage> pieces;
  bool still_good = true;
  for (std::size_t at = 0; at < bytes.size() && still_good; at += step) {
    still_good = in_steps.feed(bytes.substr(at, step), pieces).has_value();
    if (still_good && in_steps.buffered() > kMaxFrame + 16 + step) std::abort();
  }
  if (good != still_good || whole.size() != pieces.size()) std::abort();
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (whole[i].type != pieces[i].type || whole[i].run != pieces[i].run || whole[i].data != pieces[i].data ||
        whole[i].status < 0 || whole[i].status > 255) {
      std::abort();
    }
  }
  return 0;
}
