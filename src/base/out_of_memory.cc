#include "base/out_of_memory.h"

#include "base/concat.h"

namespace osb {

std::string format_binary_size(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  std::uint64_t size = 1;
  while (unit + 1 < std::size(kUnits) && bytes / size >= 1024) {
    size *= 1024;
    ++unit;
  }
  const std::uint64_t tenths = unit == 0 ? 0 : bytes % size * 10 / size;
  if (tenths == 0) return concat(bytes / size, ' ', kUnits[unit]);
  return concat(bytes / size, '.', tenths, ' ', kUnits[unit]);
}

std::string out_of_memory_message(std::optional<std::uint64_t> limit_bytes, bool limit_reached) {
  if (!limit_bytes) return "out of memory (no memory left on the host or for all sandboxes together)";
  if (!limit_reached) {
    return concat(
        "out of memory (no memory left on the host or for all sandboxes together; the sandbox is below its limit of ",
        format_binary_size(*limit_bytes), ')');
  }
  return concat("out of memory (limit ", format_binary_size(*limit_bytes), ')');
}

}  // namespace osb
