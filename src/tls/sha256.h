#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

struct evp_md_ctx_st;  // OpenSSL's EVP_MD_CTX: its headers stay in the .cc files

namespace osb::tls {

using Sha256Bytes = std::array<std::uint8_t, 32>;

// SHA-256 of a stream, with the processor's own instructions where it has them. Throws std::bad_alloc when OpenSSL has
// no memory or its configuration forbids the algorithm; nothing else can go wrong.
class Sha256 {
 public:
  Sha256();
  void update(std::string_view bytes);
  // The sum of all that was given; the object then starts again from nothing.
  Sha256Bytes finish();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

Sha256Bytes sha256(std::string_view bytes);

}  // namespace osb::tls
