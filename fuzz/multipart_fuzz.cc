// A boundary (up to the first newline) and a body. The parser must give the same parts however the body is cut, and
// hand out no byte that it was not given.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "http/multipart.h"

namespace {

using osb::http::MultipartParser;

struct Outcome {
  std::vector<std::string> parts;  // name, file name and data
  std::string error;
  bool operator==(const Outcome&) const = default;
};

Outcome parse(std::string_view boundary, std::string_view body, std::size_t piece) {
  MultipartParser parser(boundary);
  Outcome out;
  std::size_t bytes = 0;
  const std::size_t size = body.size();
  while (true) {
    switch (parser.next()) {
      case MultipartParser::Event::NeedInput:
        if (body.empty()) {
          if (const auto whole = parser.finish(); !whole) out.error = whole.error().message;
          return out;
        }
        parser.feed(body.substr(0, piece));
        body.remove_prefix(std::min(piece, body.size()));
        break;
      case MultipartParser::Event::PartBegin:
        out.parts.push_back(parser.head().name + '\0' + parser.head().filename.value_or("") + '\0');
        break;
      case MultipartParser::Event::Data:
        out.parts.back() += parser.data();
        bytes += parser.data().size();
        if (parser.data().empty() || bytes > size) std::abort();
        break;
      case MultipartParser::Event::PartEnd:
      case MultipartParser::Event::End:
        break;
      case MultipartParser::Event::Failed:
        out.error = parser.error().message;
        return out;
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t newline = std::min(input.find('\n'), input.size());
  const auto boundary =
      osb::http::boundary_of("multipart/form-data; boundary=\"" + std::string(input.substr(0, newline)) + "\"");
  if (!boundary) return 0;
  const std::string_view body = input.substr(std::min(newline + 1, input.size()));
  const Outcome whole = parse(*boundary, body, std::max<std::size_t>(body.size(), 1));
  for (const std::size_t piece : {1, 2, 7}) {
    if (parse(*boundary, body, piece) != whole) std::abort();
  }
  return 0;
}
