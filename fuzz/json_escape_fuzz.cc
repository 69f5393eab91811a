// JSON escaping: any bytes become a string that a JSON parser accepts, on one line, and nothing valid is lost.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "api/json.h"
#include "base/json_escape.h"
#include "base/mask_secrets.h"
#include "base/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  std::string text;
  osb::append_json_string(text, bytes);
  if (text.size() > osb::max_json_escaped_size(size) + 2) std::abort();
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20) std::abort();
  }
  const auto value = osb::api::parse_json(text);
  if (!value || !value->is_string()) std::abort();
  if (osb::find_invalid_utf8(bytes) == std::string_view::npos && value->get_string() != bytes) std::abort();
  if (osb::detail::plain_prefix(bytes.data(), size) != osb::detail::plain_prefix_portable(bytes.data(), size)) {
    std::abort();
  }
  osb::mask_secrets(bytes);
  return 0;
}
