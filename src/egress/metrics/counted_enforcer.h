#pragma once

#include <utility>

#include "egress/enforcer.h"
#include "egress/sandbox/sandboxes.h"

namespace osb::egress {

// Counts the changes of the kernel's tables that another enforcer makes. Both references outlive it.
class CountedEnforcer final : public Enforcer {
 public:
  CountedEnforcer(Enforcer& inner, Sandboxes& sandboxes) : inner_(inner), sandboxes_(sandboxes) {}

  void open(const std::string& id, std::uint64_t revision, std::vector<api::egress::OpenAddress> addresses,
            Done done) override {
    inner_.open(id, revision, std::move(addresses), [this, id, done = std::move(done)](Result<void> opened) mutable {
      count(id, opened);
      done(std::move(opened));
    });
  }
  net::awaitable<Result<void>> set_policy(std::string id, std::uint64_t revision, policy::Policy policy) override {
    auto changed = co_await inner_.set_policy(id, revision, std::move(policy));
    count(id, changed);
    co_return changed;
  }
  std::string_view mode() const override { return inner_.mode(); }

  void count(const std::string& id, const Result<void>& changed) {
    if (const SandboxPtr sandbox = sandboxes_.by_id(id); sandbox && changed) ++sandbox->metrics.updates;
  }

 private:
  Enforcer& inner_;
  Sandboxes& sandboxes_;
};

}  // namespace osb::egress
