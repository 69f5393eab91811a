#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "tls/context.h"

namespace osb::tls {

// A certificate authority of our own. Sandboxes trust its certificate, so that connections to hosts with credentials
// can be opened on their way. The owner of the key can pose as any host to those sandboxes: it stays in a file that
// only its owner can read and in the memory of the process that signs, and is never shown to a sandbox.
//
// Keys are ECDSA on P-256. May be shared between threads.
class CertificateAuthority {
 public:
  static Result<CertificateAuthority> create();
  // Key and certificate in PEM, as secret_pem() writes them. Refused: an expired certificate, one that may not sign, a
  // key that does not belong to it.
  static Result<CertificateAuthority> parse(std::string_view secret_pem);
  // Reads `file`, or makes a new authority and stores it there (0600). A file that others can read, that another user
  // owns or that is a link is refused.
  static Result<CertificateAuthority> load_or_create(const std::filesystem::path& file);

  CertificateAuthority(CertificateAuthority&&) noexcept;
  CertificateAuthority& operator=(CertificateAuthority&&) noexcept;
  ~CertificateAuthority();

  // For the trust store of a sandbox.
  std::string certificate_pem() const;
  // Contains the private key. For the file, and for handing it to the process that signs.
  std::string secret_pem() const;

  // A server with a new certificate for one host (a DNS name), valid for kLeafDays from an hour ago.
  Result<std::shared_ptr<const ServerContext>> issue(std::string_view host) const;
  static constexpr int kLeafDays = 7;

 private:
  struct Keys;
  explicit CertificateAuthority(std::unique_ptr<Keys> keys);
  std::unique_ptr<Keys> keys_;
};

}  // namespace osb::tls
