// The log of a container, as an engine sends it: the first byte says in which steps the rest arrives.

#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "runtime/docker/log_frames.h"

namespace {

struct Read {
  std::vector<osb::runtime::LogFrame> frames;
  bool good = true;
};

Read read(std::string_view bytes, std::size_t step) {
  Read out;
  osb::runtime::LogFrames decoder;
  for (std::size_t at = 0; at < bytes.size() && out.good; at += step) {
    out.good = decoder.feed(bytes.substr(at, step), out.frames).has_value();
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  const Read whole = read(bytes, bytes.size() + 1);
  const Read steps = read(bytes, 1 + data[0] % 32);
  if (whole.good != steps.good) std::abort();
  if (whole.good && whole.frames.size() != steps.frames.size()) std::abort();
  osb::runtime::LogMark mark;
  for (const auto& frame : whole.frames) mark.note(frame);
  for (const auto& frame : steps.frames) (void)mark.knows(frame);
  return 0;
}
