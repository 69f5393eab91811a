// The WWW-Authenticate of a registry. A parameter is part of the header; a challenge without a scheme has none.

#include <cstdint>
#include <cstdlib>
#include <string>

#include "image/registry_auth.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using osb::image::Challenge;
  const std::string value(reinterpret_cast<const char*>(data), size);
  const Challenge challenge = osb::image::parse_challenge({{"WWW-Authenticate", value}});
  if (challenge.realm.size() > size || challenge.service.size() > size) std::abort();
  if (challenge.scheme == Challenge::Scheme::None && !(challenge.realm + challenge.service).empty()) std::abort();
  return 0;
}
