#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "http/client.h"
#include "server/service/pauses.h"
#include "server/service/sandbox_states.h"

namespace osb::server {

// Pauses sandboxes that are idle, and wakes paused ones when they are accessed, if their idlePolicy says so. Activity
// is every request through the server's proxy, and what execd says when it is asked at the end of the idle time:
// requests, connected streams, running commands and terminals. Nothing is asked while a sandbox is used or paused. One
// loop; the arguments outlive it.
class IdlePolicies {
  struct Entry;

 public:
  IdlePolicies(const ServiceContext& context, SandboxStates& states, Pauses& pauses);
  ~IdlePolicies();

  // Hears of each status; the idle time begins when a sandbox begins to run.
  void note(const SandboxRecord& record);
  void forget(const std::string& id);

  // A request to the sandbox, from its beginning to the end of its answer. Nothing without a policy.
  class Access {
   public:
    Access() = default;
    explicit Access(std::shared_ptr<Entry> entry);
    Access(Access&&) noexcept = default;
    Access& operator=(Access&&) = delete;
    ~Access();

   private:
    std::shared_ptr<Entry> entry_;
  };
  Access begin_access(const SandboxRecord& record);
  // A request that a gateway has seen.
  void touch(const std::string& id);

  // Until the sandbox, whose policy wakes it on access, runs again. At most so many requests wait for one sandbox, in
  // the order in which they came. An error means that it did not run in time: the request can be sent again.
  net::awaitable<Result<void>> wake(std::string id);

  net::awaitable<void> run();  // until cancelled
  // Looks at everything that is due. Returns the next moment at which something can be.
  std::optional<std::chrono::steady_clock::time_point> check();
  // Sandboxes that check() found due and that are not yet paused or left running.
  std::size_t under_way() const { return under_way_; }

 private:
  struct Wake;

  net::awaitable<void> look_at(std::shared_ptr<Entry> entry);
  net::awaitable<void> consider(std::shared_ptr<Entry> entry);
  net::awaitable<bool> is_active(std::shared_ptr<Entry> entry, api::IdlePolicy policy);
  net::awaitable<bool> probe(std::string id, api::ActiveProbe wanted);
  net::awaitable<void> run_wake(std::string id, std::shared_ptr<Wake> wake);
  void arm(Entry& entry);

  const ServiceContext& context_;
  SandboxStates& states_;
  Pauses& pauses_;
  http::Client client_;
  std::unordered_map<std::string, std::shared_ptr<Entry>> entries_;  // sandboxes with an idle time
  std::unordered_map<std::string, std::shared_ptr<Wake>> wakes_;     // under way
  std::optional<std::chrono::steady_clock::time_point> next_;        // at which run() looks again
  std::size_t under_way_ = 0;
  Notifier moved_;
};

}  // namespace osb::server
