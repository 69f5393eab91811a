// Quantities: nothing a client writes may crash or wrap, and a longer unit never means less.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/quantity.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto units = osb::parse_quantity("memory", text);
  const auto millis = osb::parse_quantity_millis("cpu", text);
  // Rounded up both: a thousandth of the second lies at most one below the first.
  if (units && millis && (*millis + 999) / 1000 != *units && *millis < UINT64_MAX - 999) std::abort();
  if (millis && !units) std::abort();
  const auto memory = osb::parse_docker_memory(text);
  if (memory && *memory > INT64_MAX) std::abort();
  const auto cpu = osb::parse_docker_cpu(text);
  if (cpu && *cpu <= 0) std::abort();
  const auto gpu = osb::parse_docker_gpu(text);
  if (gpu && *gpu != -1 && *gpu < 1) std::abort();
  return 0;
}
