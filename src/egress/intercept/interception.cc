#include "egress/intercept/interception.h"

namespace osb::egress {

Interception::Interception(net::any_io_executor executor, Sandboxes& sandboxes, Resolver& resolver, VaultAudit& audit,
                           intercept::InterceptorOptions options)
    : executor_(executor),
      rules_(
          executor, sandboxes, resolver, system_clock(), {},
          [&audit](const Sandbox& sandbox, const vault::Decision& decision, const intercept::Rules::Outcome& outcome) {
            audit.request({.sandbox_id = sandbox.id,
                           .host = outcome.host,
                           .method = outcome.method,
                           .status_code = outcome.status,
                           .took = outcome.duration},
                          decision);
          }),
      options_(std::move(options)) {}

Result<void> Interception::start(const api::egress::Interception& wanted, UniqueFd socket) {
  if (interceptor_) return {};
  auto keys = tls::CertificateAuthority::parse(wanted.authority);
  if (!keys) return with_context("certificate authority", keys.error());
  auto pins = SandboxRules::parse_pins(wanted.pins);
  if (!pins) return with_context("addresses that the operator gives to hosts", pins.error());
  rules_.set_options({.pins = std::move(*pins), .scrub_bodies = wanted.scrub_bodies});
  // An empty list would mean the list of the machine. Nobody else has certificates of our own authority.
  tls::ClientOptions options;
  options.ca_pem = wanted.trust.empty() ? keys->certificate_pem() : wanted.trust;
  auto context = tls::ClientContext::make(options);
  if (!context) return with_context("certificates of servers", context.error());
  leaves_ = std::make_unique<tls::LeafContexts>(std::move(*keys));
  interceptor_ = std::make_unique<intercept::Interceptor>(executor_, rules_, *leaves_, std::move(*context), options_);
  interceptor_->listen(std::move(socket));
  return {};
}

net::awaitable<void> Interception::close() {
  if (interceptor_) co_await interceptor_->close();
}

}  // namespace osb::egress
