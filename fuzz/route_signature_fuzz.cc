// Signed routes as a gateway gets them: sandbox id, expiry and signature, one a line. An accepted route must be exactly
// one that we would have signed.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tls/route_signature.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace osb::tls;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto next = [&] {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return std::string(line);
  };
  const std::string id = next();
  RouteSignature given;
  given.expiry = next();
  given.signature = next();
  const RouteKey key{'k', "secret-key-bytes"};
  const auto expires = decode_route_expiry(given.expiry);
  if (expires && encode_route_expiry(*expires) != given.expiry) std::abort();
  const bool accepted = verify_route({{key.id, key.secret}}, id, 8080, given, 0).has_value();
  if (accepted != (expires && sign_route(key, id, 8080, *expires) == given)) std::abort();
  return 0;
}
