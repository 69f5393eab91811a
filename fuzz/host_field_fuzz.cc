// The Host field of requests that leave a sandbox. A name that comes out is a DNS name in its one form, and writing it
// down again gives the same.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "intercept/first_bytes.h"
#include "tls/host_name.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace osb;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto field = intercept::parse_host_field(input);
  if (!field) return 0;
  if (field->port && *field->port == 0) std::abort();
  if (!field->name) return 0;
  if (tls::parse_dns_name(*field->name) != *field->name) std::abort();
  const std::string written = *field->name + (field->port ? ":" + std::to_string(*field->port) : "");
  const auto again = intercept::parse_host_field(written);
  if (!again || again->name != field->name || again->port != field->port) std::abort();
  return 0;
}
