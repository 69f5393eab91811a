#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "egress/proxy/resolver.h"
#include "egress/sandbox/sandboxes.h"
#include "intercept/rules.h"
#include "vault/injector.h"

namespace osb::egress {

// Decides about intercepted connections: by the sandbox's policy which may pass, by its vault which are opened and
// which requests get a credential. The interceptor connects from outside the sandbox, where the sandbox's packet rules
// do not hold, so addresses are judged here too.
class SandboxRules final : public intercept::Rules {
 public:
  struct Options {
    // Addresses that the operator gives to hosts, instead of our name servers.
    std::map<std::string, std::vector<IpAddress>> pins = {};
    bool scrub_bodies = false;
  };
  // Of texts "HOST=ADDRESS"; a host may have several.
  static Result<std::map<std::string, std::vector<IpAddress>>> parse_pins(const std::vector<std::string>& texts);
  // Called for each request that was judged, with the status of its answer.
  using Audit = std::function<void(const Sandbox&, const vault::Decision&, const Outcome&)>;

  SandboxRules(net::any_io_executor executor, Sandboxes& sandboxes, Resolver& resolver, const Clock& clock,
               Options options, Audit audit);
  // The operator's, which may come later than the first sandbox.
  void set_options(Options options) { options_ = std::move(options); }

  intercept::Admission admit(const intercept::Flow& flow, intercept::Protocol protocol,
                             const std::optional<std::string>& name) override;
  intercept::Verdict judge(const intercept::Flow& flow, std::string_view scheme, std::string_view host,
                           const http::Request& request) override;
  net::awaitable<Result<std::vector<IpAddress>>> resolve(IpAddress sandbox, std::string host) override;
  void finished(const intercept::Flow& flow, const intercept::Verdict& verdict, const Outcome& outcome) override;
  void failed(const intercept::Flow& flow, std::string_view host, std::string_view why) override;

 private:
  // Whether a connection of the sandbox may be spliced to the address. `named`: it names a host that the policy allows.
  bool may_reach(const Sandbox& sandbox, const IpAddress& address, std::uint16_t port, bool named) const;
  // Names in connections leave this host as questions do, and cost as much: see Budget.
  bool may_ask(Sandbox& sandbox, std::string_view host, const Question& question);
  net::awaitable<std::shared_ptr<const Answer>> look_up(SandboxPtr sandbox, Question question);

  net::any_io_executor executor_;
  Sandboxes& sandboxes_;
  Resolver& resolver_;
  const Clock& clock_;
  Options options_;
  const Audit audit_;
};

}  // namespace osb::egress
