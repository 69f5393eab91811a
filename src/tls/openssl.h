#pragma once

#include <memory>
#include <string>
#include <string_view>

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

// Lists of application protocols as ALPN writes them: length, name, length, name.
inline constexpr std::string_view kOnlyHttp1 = "\x08http/1.1";
inline constexpr std::string_view kOnlyHttp2 = "\x02h2";
inline constexpr std::string_view kHttp2Or1 = "\x02h2\x08http/1.1";

// The list that the server side of a connection chooses from. `protocols` outlives the SSL object.
inline void serve_protocols(SSL* ssl, const std::string_view& protocols) {
  SSL_set_app_data(ssl, const_cast<std::string_view*>(&protocols));
}
inline std::string_view served_protocols(const SSL* ssl) {
  const auto* set = static_cast<const std::string_view*>(SSL_get_app_data(ssl));
  return set != nullptr ? *set : kOnlyHttp1;
}

inline BioPtr memory_bio(const std::string& text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

}  // namespace osb::tls
