#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/error.h"

// OpenSSL's SSL_CTX, X509 and EVP_PKEY: its headers stay in the .cc files.
struct ssl_ctx_st;
struct x509_st;
struct evp_pkey_st;

namespace osb::tls {

// A certificate with the chain below its root, and the private key, both in PEM. An encrypted key is an error: a server
// cannot ask for a passphrase.
struct Identity {
  static Result<Identity> load(const std::filesystem::path& chain, const std::filesystem::path& key);
  std::string chain_pem;
  std::string key_pem;
};

struct ClientOptions {
  // Trusted instead of the system's roots; both may be given.
  std::filesystem::path ca_file;
  std::string ca_pem;
  // Accepts every certificate: no protection against an active attacker.
  bool insecure = false;
  // Takes a stream that ends without close_notify for complete. For servers known to leave so; HTTP with a length or
  // chunks does not need it.
  bool allow_truncation = false;
  std::optional<Identity> identity;  // shown when the server asks for it
};

// Settings that connections of one client share. TLS 1.2 and newer, forward secrecy and authenticated ciphers only.
// Made once (reading the system's roots takes milliseconds) and never changed: may be shared between threads.
class ClientContext {
 public:
  static Result<std::shared_ptr<const ClientContext>> make(const ClientOptions& options);
  ssl_ctx_st* get() const { return context_.get(); }

 private:
  std::shared_ptr<ssl_ctx_st> context_;
};

// The same for a server. The certificate can be exchanged while connections are open: they keep theirs, new ones get
// the new one. Any thread may do so.
class ServerContext {
 public:
  static Result<std::shared_ptr<ServerContext>> make(const Identity& identity);
  static Result<std::shared_ptr<ServerContext>> from_files(std::filesystem::path chain, std::filesystem::path key);

  // Of parts that OpenSSL has in memory already; reading a key from PEM takes a millisecond.
  static Result<std::shared_ptr<ServerContext>> make(x509_st* certificate, x509_st* issuer, evp_pkey_st* key);

  Result<void> replace(const Identity& identity);
  // Reads the files again (SIGHUP). On an error the old certificate stays in use. Fails if there were no files.
  Result<void> reload();

  std::shared_ptr<ssl_ctx_st> current() const;

 private:
  std::filesystem::path chain_, key_;
  mutable std::mutex mutex_;
  std::shared_ptr<ssl_ctx_st> context_;
};

}  // namespace osb::tls
