// A size (first eight bytes) and the text of a Range, date, entity-tag or parameterized field.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "http/parameters.h"
#include "http/range.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace osb::http;
  std::uint64_t file_size = 0;
  if (size < sizeof(file_size)) return 0;
  std::memcpy(&file_size, data, sizeof(file_size));
  const std::string_view text(reinterpret_cast<const char*>(data) + sizeof(file_size), size - sizeof(file_size));

  const RangeRequest range = parse_range(text, file_size);
  if (range.kind == RangeRequest::Kind::Part) {
    if (range.length == 0 || range.offset >= file_size || range.length > file_size - range.offset) std::abort();
    content_range(range.offset, range.length, file_size);
  }
  if (const auto date = parse_http_date(text)) {
    if (parse_http_date(format_http_date(*date)) != *date) std::abort();
  }
  etag_matches(text, "\"x\"", TagComparison::Weak);
  const Headers headers{{"If-Range", std::string(text)}, {"If-None-Match", std::string(text)}};
  evaluate_preconditions("GET", headers, {"\"x\"", HttpTime()});
  range_applies(headers, {"\"x\"", HttpTime()});
  const std::string disposition = attachment_disposition(text);
  for (const char c : disposition) {
    if (static_cast<unsigned char>(c) < ' ' || static_cast<unsigned char>(c) >= 0x7f) std::abort();
  }
  if (!parse_parameters(disposition)) std::abort();
  parse_parameters(text);
  decode_extended_value(text);
  return 0;
}
