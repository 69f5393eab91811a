#include "image/digest.h"

namespace osb::image {

namespace {

bool is_hex(std::string_view text) { return text.find_first_not_of("0123456789abcdef") == std::string_view::npos; }

std::uint8_t nibble(char c) { return static_cast<std::uint8_t>(c <= '9' ? c - '0' : c - 'a' + 10); }

}  // namespace

Result<Digest> Digest::from_hex(std::string_view hex) {
  if (hex.size() != 64 || !is_hex(hex)) {
    return fail(Code::InvalidRequest, "digest: expected 64 lower-case hexadecimal digits");
  }
  tls::Sha256Bytes bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::uint8_t>(nibble(hex[2 * i]) << 4 | nibble(hex[2 * i + 1]));
  }
  return Digest(bytes);
}

Result<Digest> Digest::parse(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return fail(Code::InvalidRequest, "digest: expected sha256:<64 digits>");
  const std::string_view algorithm = text.substr(0, colon);
  if (algorithm == "sha256") return from_hex(text.substr(colon + 1));
  const bool known = algorithm == "sha512" || algorithm == "sha384";
  return fail(known ? Code::Unsupported : Code::InvalidRequest, "digest: only sha256 is supported");
}

std::string Digest::hex() const {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  out.reserve(64);
  for (const std::uint8_t b : bytes_) {
    out += kDigits[b >> 4];
    out += kDigits[b & 15];
  }
  return out;
}

}  // namespace osb::image
