#pragma once

#include <compare>
#include <string>
#include <string_view>

#include "base/error.h"
#include "tls/sha256.h"

namespace osb::image {

// The name of a blob: the SHA-256 of its bytes. It always has all its digits, so its text can be used as a file name or
// in a URL without another check.
class Digest {
 public:
  // "sha256:" and 64 lower-case hexadecimal digits. Another algorithm's well-formed digest is Code::Unsupported,
  // everything else Code::InvalidRequest.
  static Result<Digest> parse(std::string_view text);
  // The 64 digits alone.
  static Result<Digest> from_hex(std::string_view hex);
  static Digest of(std::string_view bytes) { return Digest(tls::sha256(bytes)); }
  Digest() : bytes_{} {}  // zeros: no blob's digest, for containers and coroutine results
  explicit Digest(const tls::Sha256Bytes& bytes) : bytes_(bytes) {}

  std::string hex() const;
  std::string to_string() const { return "sha256:" + hex(); }
  auto operator<=>(const Digest&) const = default;

 private:
  tls::Sha256Bytes bytes_;
};

}  // namespace osb::image
