#include <cstdint>
#include <cstdlib>
#include <string>

#include "yaml/reader.h"
#include "yaml/writer.h"

// Data that was read is written and read again: the result must be the same.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto first = osb::yaml::parse(std::string(reinterpret_cast<const char*>(data), size));
  if (!first) return 0;
  const auto again = osb::yaml::parse(osb::yaml::to_text(*first, osb::yaml::Keys::AsTheyAre));
  if (!again || *again != *first) std::abort();
  return 0;
}
