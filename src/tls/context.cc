#include "tls/context.h"

#include <array>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>

#include <openssl/pem.h>

#include "tls/openssl.h"
#include "tls/system_authorities.h"

namespace osb::tls {
namespace {

Failure openssl_failure(const std::string& doing) {
  return fail(Code::InvalidRequest, doing + ": " + take_openssl_error());
}

Result<std::string> read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (!in.is_open() || in.bad()) return fail(Code::NotFound, "cannot read " + path.string());
  return text;
}

// Never prompts: without this OpenSSL would ask at the terminal.
int no_passphrase(char*, int, int, void*) { return 0; }

std::shared_ptr<SSL_CTX> new_context(const SSL_METHOD* method) {
  ERR_clear_error();
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(method), SSL_CTX_free);
  if (!context) return context;
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_cipher_list(context.get(), "ECDHE+AESGCM:ECDHE+CHACHA20");  // TLS 1.2; those of 1.3 are all good
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_read_ahead(context.get(), 1);  // one receive per record instead of two
  return context;
}

Result<void> use_identity(SSL_CTX* context, const Identity& identity) {
  const BioPtr chain = memory_bio(identity.chain_pem);
  const X509Ptr leaf(PEM_read_bio_X509_AUX(chain.get(), nullptr, no_passphrase, nullptr));
  if (!leaf) return openssl_failure("no certificate in the chain");
  if (SSL_CTX_use_certificate(context, leaf.get()) != 1) return openssl_failure("certificate not usable");
  while (X509* next = PEM_read_bio_X509(chain.get(), nullptr, no_passphrase, nullptr)) {
    if (SSL_CTX_add0_chain_cert(context, next) != 1) {
      X509_free(next);
      return openssl_failure("certificate chain not usable");
    }
  }
  ERR_clear_error();  // the end of the file
  const BioPtr text = memory_bio(identity.key_pem);
  const PkeyPtr key(PEM_read_bio_PrivateKey(text.get(), nullptr, no_passphrase, nullptr));
  if (!key) return openssl_failure("no usable private key (encrypted keys are not supported)");
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1 || SSL_CTX_check_private_key(context) != 1) {
    return openssl_failure("the private key does not belong to the certificate");
  }
  return {};
}

Result<void> trust(SSL_CTX* context, const std::string& pem, const std::string& from) {
  const BioPtr bio = memory_bio(pem);
  int count = 0;
  while (const X509Ptr certificate{PEM_read_bio_X509(bio.get(), nullptr, no_passphrase, nullptr)}) {
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context), certificate.get());
    ++count;
  }
  ERR_clear_error();
  if (count == 0) return fail(Code::InvalidRequest, "no CA certificate in " + from);
  return {};
}

// OpenSSL looks where it was built to look; binaries travel between distributions.
constexpr std::array kBundles{
    "/etc/ssl/certs/ca-certificates.crt",  // Debian, Alpine
    "/etc/pki/tls/certs/ca-bundle.crt",    // Fedora, RHEL
    "/etc/ssl/ca-bundle.pem",              // openSUSE
    "/etc/ssl/cert.pem",
};

Result<void> trust_system(SSL_CTX* context) {
  if (std::getenv(X509_get_default_cert_file_env()) != nullptr ||
      std::getenv(X509_get_default_cert_dir_env()) != nullptr) {
    if (SSL_CTX_set_default_verify_paths(context) == 1) return {};
    return openssl_failure("CA certificates named by the environment");
  }
  for (const char* bundle : kBundles) {
    if (SSL_CTX_load_verify_file(context, bundle) == 1) return {};
  }
  ERR_clear_error();
  SSL_CTX_set_default_verify_paths(context);  // may find nothing: then every verification fails and says so
  return {};
}

int select_protocol(SSL* ssl, const unsigned char** out, unsigned char* out_size, const unsigned char* in,
                    unsigned int size, void*) {
  const std::string_view ours = served_protocols(ssl);
  unsigned char* chosen = nullptr;
  if (SSL_select_next_proto(&chosen, out_size, reinterpret_cast<const unsigned char*>(ours.data()),
                            static_cast<unsigned int>(ours.size()), in, size) != OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

// Without a certificate.
Result<std::shared_ptr<SSL_CTX>> server_context() {
  auto context = new_context(TLS_server_method());
  if (!context) return openssl_failure("TLS context");
  SSL_CTX_set_alpn_select_cb(context.get(), select_protocol, nullptr);
  constexpr std::string_view kSessionScope = "opensandbox";
  SSL_CTX_set_session_id_context(context.get(), reinterpret_cast<const unsigned char*>(kSessionScope.data()),
                                 kSessionScope.size());
  return context;
}

}  // namespace

std::string system_authorities() {
  if (const char* named = std::getenv(X509_get_default_cert_file_env())) return read_file(named).value_or("");
  for (const char* bundle : kBundles) {
    if (auto text = read_file(bundle); text && !text->empty()) return std::move(*text);
  }
  return {};
}

Result<Identity> Identity::load(const std::filesystem::path& chain, const std::filesystem::path& key) {
  auto chain_pem = read_file(chain);
  if (!chain_pem) return with_context("TLS certificate", chain_pem.error());
  auto key_pem = read_file(key);
  if (!key_pem) return with_context("TLS key", key_pem.error());
  return Identity{std::move(*chain_pem), std::move(*key_pem)};
}

Result<std::shared_ptr<const ClientContext>> ClientContext::make(const ClientOptions& options) {
  auto made = std::make_shared<ClientContext>();
  made->context_ = new_context(TLS_client_method());
  SSL_CTX* context = made->context_.get();
  if (context == nullptr) return openssl_failure("TLS context");
  if (options.allow_truncation) SSL_CTX_set_options(context, SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_verify(context, options.insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, nullptr);
  if (!options.ca_file.empty()) {
    const auto pem = read_file(options.ca_file);
    if (!pem) return with_context("CA certificates", pem.error());
    if (auto trusted = trust(context, *pem, options.ca_file.string()); !trusted) return Failure(trusted.error());
  }
  if (!options.ca_pem.empty()) {
    if (auto trusted = trust(context, options.ca_pem, "the given PEM text"); !trusted) return Failure(trusted.error());
  }
  if (options.ca_file.empty() && options.ca_pem.empty() && !options.insecure) {
    if (auto trusted = trust_system(context); !trusted) return Failure(trusted.error());
  }
  if (options.identity) {
    if (auto used = use_identity(context, *options.identity); !used) return with_context("client", used.error());
  }
  return made;
}

Result<std::shared_ptr<ServerContext>> ServerContext::make(const Identity& identity) {
  auto made = std::make_shared<ServerContext>();
  if (auto replaced = made->replace(identity); !replaced) return Failure(replaced.error());
  return made;
}

Result<std::shared_ptr<ServerContext>> ServerContext::make(X509* certificate, X509* issuer, EVP_PKEY* key) {
  auto context = server_context();
  if (!context) return Failure(context.error());
  if (SSL_CTX_use_certificate(context->get(), certificate) != 1 ||
      SSL_CTX_add1_chain_cert(context->get(), issuer) != 1 || SSL_CTX_use_PrivateKey(context->get(), key) != 1) {
    return openssl_failure("certificate not usable");
  }
  auto made = std::make_shared<ServerContext>();
  made->context_ = std::move(*context);
  return made;
}

Result<std::shared_ptr<ServerContext>> ServerContext::from_files(std::filesystem::path chain,
                                                                 std::filesystem::path key) {
  auto made = std::make_shared<ServerContext>();
  made->chain_ = std::move(chain);
  made->key_ = std::move(key);
  if (auto loaded = made->reload(); !loaded) return Failure(loaded.error());
  return made;
}

Result<void> ServerContext::replace(const Identity& identity) {
  auto context = server_context();
  if (!context) return Failure(context.error());
  if (auto used = use_identity(context->get(), identity); !used) return Failure(used.error());
  const std::lock_guard lock(mutex_);
  context_ = std::move(*context);
  return {};
}

Result<void> ServerContext::reload() {
  if (chain_.empty()) return fail(Code::Unsupported, "the certificate did not come from files");
  const auto identity = Identity::load(chain_, key_);
  if (!identity) return Failure(identity.error());
  if (auto replaced = replace(*identity); !replaced) return with_context(chain_.string(), replaced.error());
  return {};
}

std::shared_ptr<SSL_CTX> ServerContext::current() const {
  const std::lock_guard lock(mutex_);
  return context_;
}

}  // namespace osb::tls
