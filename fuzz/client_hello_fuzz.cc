// The first bytes that a program in a sandbox sends to port 443. However they are cut, the outcome is the same, and a
// name that comes out is a DNS name.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tls/client_hello.h"
#include "tls/host_name.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace osb::tls;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  ClientHelloReader whole, pieces;
  const auto state = whole.take(input);
  for (std::size_t i = 0; i < input.size(); ++i) pieces.take(input.substr(i, 1));
  if (pieces.take("") != state || pieces.why() != whole.why()) std::abort();
  if (state == ClientHelloReader::State::Refused && whole.why().empty()) std::abort();
  if (state == ClientHelloReader::State::Complete) {
    const std::string& name = whole.hello().server_name;
    if (name != pieces.hello().server_name || whole.hello().alpn != pieces.hello().alpn) std::abort();
    if (!name.empty() && parse_dns_name(name) != name) std::abort();
  }
  return 0;
}
