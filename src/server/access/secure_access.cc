#include "server/access/secure_access.h"

#include "tls/sha256.h"

namespace osb::server {

std::string secure_access_token(const SandboxRecord& record) {
  if (!record.spec->secure_access) return "";
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const std::uint8_t byte : tls::sha256("secure-access\n" + record.execd_token)) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

bool has_secure_access(const http::Request& request, const SandboxRecord& record) {
  if (!record.spec->secure_access) return true;
  const auto wanted = tls::sha256(secure_access_token(record));
  const auto shown = tls::sha256(request.headers.get(kSecureAccessHeader));
  unsigned difference = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) difference |= static_cast<unsigned>(wanted[i] ^ shown[i]);
  return difference == 0;
}

}  // namespace osb::server
