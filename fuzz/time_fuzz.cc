// Timestamps: what is accepted can be written, and reads back as the same moment.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/time.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto time = osb::parse_timestamp({reinterpret_cast<const char*>(data), size});
  if (!time) return 0;
  const auto again = osb::parse_timestamp(osb::format_timestamp(*time));
  if (!again || *again != *time) std::abort();
  return 0;
}
