// Event streams from sandboxes. The first byte says how the input is cut into pieces, which must not change what is
// found.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "client/event_decoder.h"

namespace {

std::string read(std::string_view bytes, std::size_t piece) {
  opensandbox::EventDecoder decoder(true);
  std::vector<opensandbox::ExecutionEvent> events;
  for (; !bytes.empty(); bytes.remove_prefix(std::min(piece, bytes.size()))) {
    decoder.feed(bytes.substr(0, piece), events);
  }
  decoder.finish(events);
  opensandbox::Execution execution;
  std::string told;
  for (const auto& event : events) {
    accumulate(execution, event, true);
    told += std::to_string(static_cast<int>(event.type)) + event.json + '\0' + event.text + std::to_string(event.seq);
  }
  return told + execution.id + execution.stdout_text() + execution.stderr_text();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view stream(reinterpret_cast<const char*>(data + 1), size - 1);
  if (read(stream, SIZE_MAX) != read(stream, std::size_t{1} + data[0])) std::abort();
  return 0;
}
