#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "api/egress_link.h"
#include "base/error.h"
#include "tls/authority.h"

namespace osb::sandboxd {

// The certificate authority of this host, made when the first sandbox with a credential proxy needs it. Its key is in a
// file of root's and in the memory of the egress process, which signs; sandboxes get the certificate. Any thread.
class EgressAuthority {
 public:
  struct Options {
    std::string extra_trust = {};  // a file with certificates that servers may be signed by, besides the machine's list
    // Of api::egress::Interception.
    bool scrub_bodies = false;
    std::vector<std::string> pins = {};
  };
  EgressAuthority(std::string file, Options options) : file_(std::move(file)), options_(std::move(options)) {}

  // In PEM, for the trust store of a sandbox.
  Result<std::string> certificate();
  // For the egress process. The machine's list of authorities is read anew.
  Result<api::egress::Interception> message();
  // Certificates in PEM that servers may be signed by: the machine's list, read anew, and `extra_trust`.
  Result<std::string> trust() const;

 private:
  Result<void> load();

  const std::string file_;
  const Options options_;
  std::mutex mutex_;
  std::optional<tls::CertificateAuthority> authority_;
};

}  // namespace osb::sandboxd
