#pragma once

#include <memory>
#include <string>

#include "api/egress_link.h"
#include "base/clock.h"
#include "egress/intercept/sandbox_rules.h"
#include "egress/vault/vault_audit.h"
#include "intercept/interceptor.h"
#include "tls/leaf_contexts.h"

namespace osb::egress {

// The interceptor of this process with its keys and rules. Connections wait in their socket until it has keys. One
// loop; close() before it goes.
class Interception {
 public:
  // References outlive it.
  Interception(net::any_io_executor executor, Sandboxes& sandboxes, Resolver& resolver, VaultAudit& audit,
               intercept::InterceptorOptions options);

  // All connections go through it. Before start().
  void go_through(std::shared_ptr<const intercept::UpstreamProxy> proxy) { options_.proxy = std::move(proxy); }
  // Takes connections of `socket` from now on, with certificates of the authority. Later calls change nothing.
  Result<void> start(const api::egress::Interception& wanted, UniqueFd socket);
  bool serves() const { return interceptor_ != nullptr; }
  void forget(const IpAddress& sandbox) {
    if (interceptor_) interceptor_->forget(sandbox);
  }
  net::awaitable<void> close();

 private:
  net::any_io_executor executor_;
  SandboxRules rules_;
  intercept::InterceptorOptions options_;
  std::unique_ptr<tls::LeafContexts> leaves_;
  std::unique_ptr<intercept::Interceptor> interceptor_;
};

}  // namespace osb::egress
