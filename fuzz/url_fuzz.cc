// Percent coding, query strings and absolute URLs.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "http/url.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace osb::http;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  if (const auto decoded = percent_decode(input)) {
    if (decoded->size() > input.size() || decoded->find('\0') != std::string::npos) std::abort();
    if (percent_decode(percent_encode(*decoded)) != *decoded) std::abort();
  }
  std::string rebuilt;
  const Query query = Query::parse(input);
  for (const auto& [key, value] : query) rebuilt += percent_encode(key) + "=" + percent_encode(value) + "&";
  const Query again = Query::parse(rebuilt);
  auto other = again.begin();
  for (const auto& pair : query) {
    if (other == again.end() || *other++ != pair) std::abort();
  }
  if (other != again.end()) std::abort();
  if (const auto url = Url::parse(input)) {
    if (url->host.empty()) std::abort();
    if (url->scheme != "unix" && (url->port == 0 || !url->target.starts_with('/'))) std::abort();
  }
  return 0;
}
