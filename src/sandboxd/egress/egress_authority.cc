#include "sandboxd/egress/egress_authority.h"

#include "base/log.h"
#include "sys/text_file.h"
#include "tls/system_authorities.h"

namespace osb::sandboxd {

Result<void> EgressAuthority::load() {
  if (authority_) return {};
  auto loaded = tls::CertificateAuthority::load_or_create(file_);
  if (!loaded) return with_context("certificate authority for credential proxies", loaded.error());
  authority_ = std::move(*loaded);
  return {};
}

Result<std::string> EgressAuthority::certificate() {
  const std::lock_guard lock(mutex_);
  if (auto loaded = load(); !loaded) return Failure(loaded.error());
  return authority_->certificate_pem();
}

Result<api::egress::Interception> EgressAuthority::message() {
  const std::lock_guard lock(mutex_);
  if (auto loaded = load(); !loaded) return Failure(loaded.error());
  auto trusted = trust();
  if (!trusted) return Failure(trusted.error());
  return api::egress::Interception{.authority = authority_->secret_pem(),
                                   .trust = std::move(*trusted),
                                   .scrub_bodies = options_.scrub_bodies,
                                   .pins = options_.pins};
}

Result<std::string> EgressAuthority::trust() const {
  std::string out = tls::system_authorities();
  if (!options_.extra_trust.empty()) {
    auto extra = sys::read_text(options_.extra_trust);
    if (!extra) return with_context("[egress] upstream_ca", extra.error());
    out += "\n" + *extra;
  }
  if (out.empty()) log_warn("this machine has no list of certificate authorities: install ca-certificates");
  return out;
}

}  // namespace osb::sandboxd
