#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "api/egress_link.h"
#include "async/blocking_pool.h"
#include "async/frame_socket.h"
#include "async/task_group.h"
#include "sandboxd/egress/egress_authority.h"
#include "sandboxd/egress/egress_sockets.h"
#include "sandboxd/egress/overlay_files.h"
#include "sandboxd/policy/network_policies.h"

namespace osb::sandboxd {

// The process that answers questions for names of all sandboxes with a network policy, and serves their policy API. It
// reads what hostile code sends, so it has no privilege: no capabilities, a user of its own, and a socket to ask this
// daemon. While it is away, connections that exist go on, names do not resolve, and nothing opens. It is started again,
// after a pause that grows, and told everything anew. One loop.
class EgressProcess {
 public:
  struct Options {
    std::string program;
    std::uint32_t user = 65534;               // and group
    std::vector<std::string> resolvers = {};  // "10.0.0.2:53"; empty: the host's
    std::string rules_directory;
    std::string otlp_endpoint = {};  // empty: none, also of the next
    std::chrono::milliseconds otlp_interval{60'000};
    std::string deny_webhook = {};
    bool log_names = false;
    std::string upstream_proxy = {};                // "http://HOST:PORT"; empty: none
    std::string upstream_proxy_authorization = {};  // a secret
  };
  // Enforces and stores a policy that the process asks for, and returns its revision: HostSandboxes::set_policy.
  using SetPolicy = std::function<net::awaitable<Result<std::uint64_t>>(std::string id, std::uint64_t revision,
                                                                        policy::Policy policy)>;
  // Stores what a restart must know about a sandbox's credential vault: HostSandboxes::set_vault.
  using SetVault =
      std::function<net::awaitable<Result<std::uint64_t>>(std::string id, std::optional<boost::json::object> vault)>;
  // The token of a sandbox's policy API; "" if it has gone.
  using Token = std::function<std::string(const std::string& id)>;

  // `policies`, `authority` and `pool` outlive it.
  EgressProcess(net::any_io_executor executor, BlockingPool& pool, NetworkPolicies& policies,
                EgressAuthority& authority, Options options);
  ~EgressProcess();

  // Reads the operator's rules, before any sandbox is found again: they hold from the first packet on. An error is no
  // reason to go on with fewer rules.
  Result<void> load_rules();

  void start(EgressSockets sockets, SetPolicy set_policy, SetVault set_vault, Token token);
  net::awaitable<void> close();

  // A sandbox with a policy has come, changed or gone. Any thread.
  void changed(std::string id);

  // A connection to the policy API of a sandbox. Code::Unavailable: the process is being started.
  Result<UniqueFd> connect(const std::string& id);

 private:
  net::awaitable<void> run();
  net::awaitable<Result<void>> serve(UniqueFd link, UniqueFd pidfd);
  Result<void> greet();
  net::awaitable<void> set_policy(api::egress::SetPolicy request, std::uint64_t link);
  net::awaitable<void> set_vault(api::egress::SetVault request, std::uint64_t link);
  void send_sandbox(const std::string& id);
  Result<void> send_resolvers();
  std::string trust_for_reports() const;
  void send_authority();
  void reload_rules();
  void send(const api::egress::ToEgress& message);
  void end_revoked_later();
  net::awaitable<void> end_revoked();

  net::any_io_executor executor_;
  BlockingPool& pool_;
  NetworkPolicies& policies_;
  EgressAuthority& authority_;
  const Options options_;
  OverlayFiles files_;
  OverlayFiles::Loaded rules_;
  EgressSockets sockets_;
  SetPolicy set_policy_;
  SetVault set_vault_;
  Token token_;
  std::optional<FrameSocket> link_;
  std::uint64_t links_ = 0;  // counts processes: an answer of an earlier one is not sent to the next
  bool ready_ = false;
  bool sent_authority_ = false;  // to this process
  std::size_t changing_ = 0;     // policies and vaults
  bool ending_revoked_ = false, end_again_ = false;
  std::vector<std::string> sent_resolvers_;
  TaskGroup tasks_;
};

// The host's own name servers, as "address:port".
std::vector<std::string> host_resolvers(std::string_view resolv_conf);

}  // namespace osb::sandboxd
