#pragma once

#include <memory>
#include <string>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

namespace osb::tls {

// OpenSSL's objects with one owner. Internal to module tls.
template <auto Free>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using SslPtr = std::unique_ptr<SSL, Freed<SSL_free>>;
using BioPtr = std::unique_ptr<BIO, Freed<BIO_free>>;
using X509Ptr = std::unique_ptr<X509, Freed<X509_free>>;
using PkeyPtr = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;

// The newest reason in this thread's error queue, which is emptied.
inline std::string take_openssl_error() {
  const unsigned long code = ERR_peek_last_error();
  const char* reason = ERR_reason_error_string(code);
  std::string text = reason != nullptr ? reason : code != 0 ? "error " + std::to_string(code) : "unknown error";
  ERR_clear_error();
  return text;
}

inline BioPtr memory_bio(const std::string& text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

}  // namespace osb::tls
