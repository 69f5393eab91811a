// Durations: what is accepted can be written, and reads back as the same length.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/duration.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto duration = osb::parse_duration({reinterpret_cast<const char*>(data), size});
  if (!duration) return 0;
  const auto again = osb::parse_duration(osb::format_duration(*duration));
  if (!again || *again != *duration) std::abort();
  return 0;
}
