#pragma once

// Certificates made on the spot, so that no key is in the repository and none expires in the middle of a release.

#include <stdexcept>
#include <string>
#include <vector>

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "tls/context.h"
#include "tls/openssl.h"

namespace osb::tls::testing {

struct CertificateRequest {
  std::string common_name;
  std::string alt_names;    // "DNS:localhost,IP:127.0.0.1"; empty: none
  long valid_from = -3600;  // seconds from now
  long valid_to = 3600;
  bool authority = false;
};

class Certificate {
 public:
  // Signed by `issuer`, or by itself.
  explicit Certificate(const CertificateRequest& request, const Certificate* issuer = nullptr)
      : key_(EVP_EC_gen("P-256")), certificate_(X509_new()) {
    X509* x = certificate_.get();
    static long serial = 0;
    X509_set_version(x, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(x), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(x), request.valid_from);
    X509_gmtime_adj(X509_getm_notAfter(x), request.valid_to);
    X509_set_pubkey(x, key_.get());
    X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char*>(request.common_name.c_str()), -1, -1, 0);
    const Certificate& signer = issuer != nullptr ? *issuer : *this;
    X509_set_issuer_name(x, X509_get_subject_name(signer.certificate_.get()));
    extend(NID_basic_constraints, request.authority ? "critical,CA:TRUE" : "critical,CA:FALSE", signer);
    if (!request.alt_names.empty()) extend(NID_subject_alt_name, request.alt_names, signer);
    if (X509_sign(x, signer.key_.get(), EVP_sha256()) == 0) throw std::runtime_error("X509_sign");
  }

  std::string certificate_pem() const {
    const BioPtr bio(BIO_new(BIO_s_mem()));
    PEM_write_bio_X509(bio.get(), certificate_.get());
    return text_of(bio.get());
  }
  std::string key_pem() const {
    const BioPtr bio(BIO_new(BIO_s_mem()));
    PEM_write_bio_PrivateKey(bio.get(), key_.get(), nullptr, nullptr, 0, nullptr, nullptr);
    return text_of(bio.get());
  }
  Identity identity() const { return {certificate_pem(), key_pem()}; }

 private:
  void extend(int nid, const std::string& value, const Certificate& signer) {
    X509V3_CTX context;
    X509V3_set_ctx(&context, signer.certificate_.get(), certificate_.get(), nullptr, nullptr, 0);
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
    if (extension == nullptr) throw std::runtime_error("X509 extension " + value);
    X509_add_ext(certificate_.get(), extension, -1);
    X509_EXTENSION_free(extension);
  }
  static std::string text_of(BIO* bio) {
    char* data = nullptr;
    const long size = BIO_get_mem_data(bio, &data);
    return {data, static_cast<std::size_t>(size)};
  }

  PkeyPtr key_;
  X509Ptr certificate_;
};

// From now on the server takes only clients that show a certificate of this authority.
inline void require_client_certificate(ServerContext& context, const Certificate& authority) {
  SSL_CTX* settings = context.current().get();
  const std::string pem = authority.certificate_pem();
  const BioPtr text = memory_bio(pem);
  const X509Ptr root(PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr));
  X509_STORE_add_cert(SSL_CTX_get_cert_store(settings), root.get());
  SSL_CTX_set_verify(settings, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
}

}  // namespace osb::tls::testing
