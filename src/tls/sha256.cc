#include "tls/sha256.h"

#include <new>

#include "tls/openssl.h"

namespace osb::tls {

void Sha256::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  if (!context_ || EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) != 1) throw std::bad_alloc();
}

void Sha256::update(std::string_view bytes) { EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()); }

Sha256Bytes Sha256::finish() {
  Sha256Bytes out;
  EVP_DigestFinal_ex(context_.get(), out.data(), nullptr);
  if (EVP_DigestInit_ex(context_.get(), nullptr, nullptr) != 1) throw std::bad_alloc();
  return out;
}

Sha256Bytes sha256(std::string_view bytes) {
  Sha256 hasher;
  hasher.update(bytes);
  return hasher.finish();
}

}  // namespace osb::tls
