#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "api/egress_link.h"
#include "async/net.h"
#include "base/error.h"
#include "policy/policy.h"

namespace osb::egress {

// Puts decisions into the kernel: sandboxd over the link (native), or our own nftables table (sidecar). Errors with
// Code::Conflict mean a stale revision.
class Enforcer {
 public:
  using Done = std::move_only_function<void(Result<void>)>;
  virtual ~Enforcer() = default;

  // Opens addresses for a sandbox at a revision of its policy. `done` is called once the kernel has them, maybe before
  // this returns.
  virtual void open(const std::string& id, std::uint64_t revision, std::vector<api::egress::OpenAddress> addresses,
                    Done done) = 0;

  // Enforces and stores another policy. When it returns success, the sandbox's entry in Sandboxes has it. A failure has
  // changed nothing.
  virtual net::awaitable<Result<void>> set_policy(std::string id, std::uint64_t revision, policy::Policy policy) = 0;

  // "dns+nft", for the answers of the API.
  virtual std::string_view mode() const = 0;
};

}  // namespace osb::egress
