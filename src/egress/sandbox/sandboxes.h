#pragma once

#include <functional>
#include <map>
#include <string>
#include <unordered_map>

#include "api/egress_link.h"
#include "base/clock.h"
#include "base/error.h"
#include "egress/sandbox/sandbox.h"
#include "policy/overlay.h"

namespace osb::egress {

// The sandboxes of this process, by id and by address.
class Sandboxes {
 public:
  // `clock` outlives it.
  explicit Sandboxes(net::any_io_executor executor, const Clock& clock = system_clock())
      : executor_(std::move(executor)), clock_(clock) {}

  const Clock& clock() const { return clock_; }

  // Adds a sandbox, or gives it a new revision. Its addresses are then open no more: see `reopen`.
  Result<void> set(const api::egress::SandboxPolicy& message);
  // The same with a policy that was read already.
  void set(const std::string& id, const IpAddress& address, std::uint64_t revision, policy::Policy policy,
           std::string token, bool audit);
  void remove(const std::string& id);

  // The vault of a sandbox as a record has it, without values: requests to bound hosts are refused until it is filled
  // again.
  static Result<void> restore_vault(Sandbox& sandbox, const boost::json::value& stored);

  // New overlays for all; a text that does not parse changes nothing.
  Result<void> set_overlays(std::string_view deny, std::string_view allow);
  const policy::Overlays& overlays() const { return overlays_; }

  SandboxPtr by_id(const std::string& id) const;
  SandboxPtr by_address(const IpAddress& address) const;
  std::size_t size() const { return by_id_.size(); }
  void for_each(const std::function<void(const Sandbox&)>& visit) const {
    for (const auto& [id, sandbox] : by_id_) visit(*sandbox);
  }

  // Called with a sandbox that has gone: its address may be given to another one.
  void on_removed(std::function<void(const Sandbox&)> removed) { removed_ = std::move(removed); }

  // Called after a sandbox got another policy, with the addresses whose names are still allowed.
  using Reopen = std::function<void(const SandboxPtr&, std::vector<std::pair<api::egress::OpenAddress, std::string>>)>;
  void on_reopen(Reopen reopen) { reopen_ = std::move(reopen); }

 private:
  void rebuild(const SandboxPtr& sandbox);

  net::any_io_executor executor_;
  const Clock& clock_;
  policy::Overlays overlays_;
  std::unordered_map<std::string, SandboxPtr> by_id_;
  std::unordered_map<IpAddress, SandboxPtr, IpAddressHash> by_address_;
  std::uint64_t last_number_ = 0;
  Reopen reopen_;
  std::function<void(const Sandbox&)> removed_ = [](const Sandbox&) {};
};

}  // namespace osb::egress
