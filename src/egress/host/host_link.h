#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>

#include "async/frame_socket.h"
#include "egress/enforcer.h"
#include "egress/sandbox/sandboxes.h"

namespace osb::egress {

// The link to sandboxd: it tells us about sandboxes and enforces for us.
class HostLink final : public Enforcer {
 public:
  // Messages that are not about one sandbox's policy.
  struct Handlers {
    std::function<void(const api::egress::Hello&)> hello;
    std::function<void(const api::egress::Interception&)> interception = [](const auto&) {};
    std::function<void(const std::string& id, UniqueFd connection)> connection;
  };

  HostLink(net::any_io_executor executor, FrameSocket socket, Sandboxes& sandboxes, Handlers handlers);

  // Until the link ends, which is the end of this process: without it nothing can be opened. The error says why; none
  // if sandboxd has closed it.
  net::awaitable<Result<void>> run();
  Result<void> send_ready();
  // Called after each message: replies can be sent.
  void on_drained(std::function<void()> drained) { drained_ = std::move(drained); }

  void open(const std::string& id, std::uint64_t revision, std::vector<api::egress::OpenAddress> addresses,
            Done done) override;
  net::awaitable<Result<void>> set_policy(std::string id, std::uint64_t revision, policy::Policy policy) override;
  // For VaultOptions::store.
  net::awaitable<Result<void>> set_vault(std::string id, std::optional<vault::StoredVault> stored);
  std::string_view mode() const override { return "dns+nft"; }

 private:
  Result<void> take(FrameSocket::Frame frame);
  Result<void> take_sandbox(const api::egress::SandboxPolicy& message);
  void take_answer(const api::egress::Answer& answer);
  void fail_all();
  net::awaitable<Result<void>> answered(std::uint64_t seq);

  net::any_io_executor executor_;
  FrameSocket socket_;
  Sandboxes& sandboxes_;
  Handlers handlers_;
  std::function<void()> drained_ = [] {};
  std::uint64_t last_seq_ = 0;
  std::unordered_map<std::uint64_t, Done> waiting_;
};

}  // namespace osb::egress
