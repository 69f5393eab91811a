// Messages between sandboxd and the egress process. A message that was taken survives encoding.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "api/egress_link.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace osb::api::egress;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  if (const auto message = decode_to_egress(input)) {
    const std::string text = encode(*message);
    const auto again = decode_to_egress(text);
    if (!again || encode(*again) != text) std::abort();
  }
  if (const auto message = decode_to_sandboxd(input)) {
    const std::string text = encode(*message);
    const auto again = decode_to_sandboxd(text);
    if (!again || encode(*again) != text) std::abort();
  }
  return 0;
}
