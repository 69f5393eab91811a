#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "async/net.h"
#include "base/error.h"
#include "kubernetes/client.h"

namespace osb::kubernetes {

struct LeaseOptions {
  std::string ns, name;
  std::string identity;               // unique among the candidates
  std::chrono::seconds duration{15};  // a leader that is silent for so long is replaced
  // Before `duration` is over, so that two never lead at once: the leader stops when it could not renew for so long.
  std::chrono::seconds renew_deadline{10};
  std::chrono::seconds renew_every{2};
};

// A Lease object's content.
struct LeaseRecord {
  std::string holder;  // empty: free
  std::chrono::seconds duration{0};
  std::string acquired, renewed;  // as the object has them
  std::int64_t transitions = 0;
  std::string version;

  static LeaseRecord parse(const json::object& lease);
  json::object spec() const;
};

// Elects one leader among the processes that name the same Lease. Clocks of other machines are not compared: a lease
// counts from the moment at which this process has seen it change.
class LeaderElection {
 public:
  // `client` outlives it.
  LeaderElection(Client& client, LeaseOptions options);

  // Waits until this process leads, and runs `work` for as long as it does. `work` is cancelled, and has ended when
  // this returns, after the lease was lost (Code::Unavailable) or the caller was cancelled. When `work` ends by itself,
  // and after a cancellation, the lease is given up at once, so that the next candidate need not wait.
  net::awaitable<Result<void>> lead(std::function<net::awaitable<void>()> work);

  bool leads() const { return leads_; }
  // The leader as it was last seen; empty: unknown.
  const std::string& holder() const { return record_.holder; }

 private:
  using SteadyTime = std::chrono::steady_clock::time_point;
  net::awaitable<Result<void>> acquire();
  net::awaitable<Result<bool>> try_acquire();
  net::awaitable<void> wait_for_change();
  net::awaitable<void> watch_once();
  net::awaitable<void> sleep_until_free();
  net::awaitable<void> keep();
  net::awaitable<bool> renew();
  net::awaitable<void> release();
  LeaseRecord taken_over(const LeaseRecord& from) const;
  net::awaitable<Result<void>> write(LeaseRecord record);
  void saw(LeaseRecord record);
  Ref ref() const { return {resources::kLeases, {options_.ns, options_.name}}; }

  Client& client_;
  LeaseOptions options_;
  JitteredBackoff pauses_;
  LeaseRecord record_;
  SteadyTime seen_at_{};
  SteadyTime renewed_at_{};
  bool leads_ = false;
};

}  // namespace osb::kubernetes
