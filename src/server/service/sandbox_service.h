#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "api/lifecycle_create.h"
#include "api/lifecycle_endpoint.h"
#include "api/lifecycle_snapshot.h"
#include "async/net.h"
#include "async/task_group.h"
#include "async/timer.h"
#include "base/clock.h"
#include "base/error.h"
#include "runtime/backend.h"
#include "server/diagnostics/event_history.h"
#include "server/metrics/create_stage.h"
#include "server/service/admission.h"
#include "server/service/backend_presence.h"
#include "server/service/creation.h"
#include "server/service/ended_sandboxes.h"
#include "server/service/state_waiters.h"
#include "server/store/store.h"

namespace osb::server {

struct ServiceOptions {
  std::optional<std::chrono::seconds> max_timeout;
  std::vector<std::string> allowed_host_paths;
  int max_sandboxes = 0;  // 0 is no limit
  int max_concurrent_creates = 100;
  int max_queued_creates = 1000;
  std::chrono::seconds keep_ended{3600};  // how long one that has ended by itself stays visible
  bool renew_on_access = false;
  std::chrono::seconds min_renew_interval{60};
  CreateStageObserver on_create_stage;  // for metrics; may be empty
};

// The rules of the lifecycle API, on a store and a backend. The store knows what was promised and when it ends, the
// backend knows what is alive; this keeps the two in step. Lives on one loop; what it is given outlives it.
//
// An accepted create is durable before it is answered and goes on when the client leaves. A sandbox is Running only
// when the backend has said so. Of a renewal and an expiry that race one wins. Whoever takes a record out of the store
// sees to it that the backend keeps nothing, also after a crash.
class SandboxService final : public runtime::Observer {
 public:
  SandboxService(net::any_io_executor executor, Store& store, runtime::Backend& backend, const Clock& clock,
                 ServiceOptions options);
  ~SandboxService() override;

  // Other limits from now on; what was promised stays. The observer of stages stays as it is.
  void set_options(ServiceOptions options);
  // Begins to watch the backend and the deadlines, and carries on with what an earlier process left.
  void start();
  // Ends waiting and watching, so that requests which do so end as well.
  void begin_close();
  bool closing() const { return closing_; }
  // Stops all of it; sandboxes go on. Awaited before the service goes.
  net::awaitable<void> close();

  // --- sandboxes

  struct CreateOptions {
    std::string idempotency_key = {};  // "" is none
    std::string fingerprint = {};      // of the body, with a key
    std::chrono::seconds wait{0};      // for Running or an error
  };
  struct CreateResult {
    SandboxPtr record;   // nullptr: a repeated create whose sandbox is gone
    std::string answer;  // what the first create was told
  };
  // A create that fails within the wait is an error and leaves nothing: no record, and its key can be used again. After
  // the wait the record tells what happens. Cancelling ends the wait, not the create.
  net::awaitable<Result<CreateResult>> create(api::CreateSandbox wanted, CreateOptions options);

  Result<SandboxPtr> get(std::string_view id) const;  // NotFound with the backend's code
  const Store& store() const { return store_; }
  const Admission& admission() const { return admission_; }
  const EventHistory& events() const { return events_; }

  net::awaitable<Result<void>> remove(std::string id);
  net::awaitable<Result<void>> pause(std::string id);
  net::awaitable<Result<void>> resume(std::string id);
  net::awaitable<Result<Timestamp>> renew(std::string id, Timestamp until);
  net::awaitable<Result<SandboxPtr>> patch_metadata(std::string id, api::MetadataPatch patch);

  // Until the record differs from `seen` in its status, is gone (nullptr), or the time is up or the service closes (the
  // same record).
  net::awaitable<SandboxPtr> wait_change(SandboxPtr seen, std::chrono::nanoseconds limit);
  // Until it is no longer Pending.
  net::awaitable<SandboxPtr> wait_settled(SandboxPtr record, std::chrono::nanoseconds limit);

  // --- how to reach one

  // What the backend last said, with at least id and token; nullptr for an unknown one.
  const runtime::Instance* instance(std::string_view id) const;
  // An access through the proxy: may move the deadline, in the background.
  void touch(const SandboxRecord& record);
  // An access that a gateway has seen, which says so seldom enough by itself. Unknown ids are ignored.
  void touch_by_gateway(const std::string& id);

  // --- snapshots

  net::awaitable<Result<SnapshotPtr>> create_snapshot(std::string sandbox_id, std::string name);
  Result<SnapshotPtr> get_snapshot(std::string_view id) const;
  net::awaitable<Result<void>> remove_snapshot(std::string id);
  // Until it is no longer being made; nullptr when it is gone.
  net::awaitable<SnapshotPtr> wait_snapshot(SnapshotPtr snapshot, std::chrono::nanoseconds limit);
  // The snapshot as an OCI archive.
  net::awaitable<Result<std::shared_ptr<http::BodySource>>> export_snapshot(std::string id);

  runtime::Backend& backend() { return backend_; }
  const runtime::Capabilities& capabilities() const { return capabilities_; }
  bool backend_reachable() const { return presence_.is_here(); }
  // Until the backend answers. False: cancelled.
  net::awaitable<bool> until_backend_reachable() { return presence_.wait(); }
  // After a start the records tell what runs, and only the backend where. Returns at once when it can be heard.
  net::awaitable<void> wait_for_backend(std::chrono::milliseconds limit);
  // Whether creates can be served: the backend is heard, and the store takes a small write, which is tried at most
  // twice a second. GENERAL::NOT_READY.
  net::awaitable<Result<void>> check_ready();
  Timestamp now() const;
  Moment moment() const;
  std::string reason(std::string_view suffix) const;  // "NATIVE::" + suffix

  // Takes out what is past its deadline or its time on display, as of the moment that is returned. A timer calls it;
  // tests with a fake clock do.
  Timestamp check_deadlines();

  // runtime::Observer
  void on_all(std::vector<runtime::Instance> instances) override;
  void on_change(runtime::Instance instance) override;
  void on_removed(std::string id) override;
  void on_lost(const Error& why) override;

 private:
  struct Removal {
    explicit Removal(net::any_io_executor executor) : settled(std::move(executor)) {}
    Event settled;               // gone, or a first try failed
    std::optional<Error> error;  // of the first try
  };

  void note_stage(CreateStage stage, std::chrono::steady_clock::time_point begin) const {
    if (options_.on_create_stage) options_.on_create_stage(stage, clock_.steady_now() - begin);
  }
  Failure not_found(std::string_view id) const;
  Result<void> check(const api::CreateSandbox& wanted) const;
  // The same, and what the backend has to be asked for. A backend that is away is Code::Unavailable.
  net::awaitable<Result<void>> check_with_backend(const api::CreateSandbox& wanted);
  struct Accepted {
    Store::Created created;
    std::unique_ptr<Creation::Answer> answer;  // null: nothing is under way
  };
  // A durable record of the create, or of the earlier one with the same key. `options` belongs to create(), which
  // waits.
  net::awaitable<Result<Accepted>> accept(api::CreateSandbox wanted, const CreateOptions& options);
  Accepted join(Store::Created known, const std::string& key);
  bool key_is_free(const CreateOptions& options) const;
  // Before run_create().
  std::shared_ptr<Creation> prepare_create(const SandboxPtr& record);
  net::awaitable<void> end_failed_create(std::string id, Creation& creation, Error error);
  net::awaitable<void> run_create(std::string id, std::shared_ptr<AdmissionTicket> ticket);
  net::awaitable<Result<runtime::Instance>> create_in_backend(SandboxPtr record);
  net::awaitable<void> pause_before_retry(std::chrono::milliseconds limit);
  net::awaitable<bool> wait_for_backend_or_removal(std::string id);

  net::awaitable<Result<void>> set_frozen(std::string id, bool frozen);
  std::shared_ptr<Removal> begin_removal(std::string id);
  net::awaitable<void> run_removal(std::string id, std::shared_ptr<Removal> removal);
  net::awaitable<void> expire(std::string id);
  net::awaitable<void> retire(std::string id);

  void apply(const runtime::Instance& instance);
  // Sandboxes without a record. True when it carries our mark and is now seen to.
  bool consider_adoption(const runtime::Instance& instance);
  net::awaitable<void> adopt(std::string id);
  net::awaitable<Result<void>> try_to_adopt(std::string id);
  void set_status(const SandboxPtr& record, std::string_view state, std::string reason, std::string message);
  void note_ended(const SandboxRecord& record);
  void forget_ended(const std::string& id);

  net::awaitable<void> run_deadlines();
  Timestamp running() const;  // see Moment
  net::awaitable<void> run_access_renewal(std::string id);
  net::awaitable<void> run_snapshot(std::string id, std::string sandbox_id);
  net::awaitable<Result<void>> finish_snapshot_removal(std::string id);
  net::awaitable<void> recover_snapshot(SnapshotPtr snapshot);
  void recover();

  net::any_io_executor executor_;
  Store& store_;
  runtime::Backend& backend_;
  const Clock& clock_;
  ServiceOptions options_;
  const Timestamp started_ = now();  // the two clocks in this order: running() may be behind, never ahead
  const std::chrono::steady_clock::time_point steady_start_ = clock_.steady_now();
  const runtime::Capabilities capabilities_;
  Admission admission_;
  StateWaiters waiters_;
  EventHistory events_;
  EndedSandboxes gone_;
  BackendPresence presence_;
  Notifier reconnected_;
  Notifier deadlines_moved_;
  std::unordered_map<std::string, runtime::Instance> instances_;
  std::unordered_map<std::string, std::shared_ptr<Creation>> creating_;
  std::unordered_map<std::string, std::shared_ptr<Removal>> removals_;
  // Those that ended by themselves: when to take them out by running(), in order and by id.
  std::set<std::pair<Timestamp, std::string>> ended_;
  std::unordered_map<std::string, Timestamp> ended_until_;
  std::unordered_map<std::string, std::chrono::steady_clock::time_point> renewed_;  // last access renewal
  std::unordered_set<std::string> leaving_;                                         // expiry or retirement under way
  std::unordered_set<std::string> adopting_;                                        // a record is being made for it
  std::unordered_set<std::string> freezing_;                                        // a pause or resume is under way
  Admission removal_slots_, snapshot_slots_;
  std::vector<std::string> unfinished_snapshots_;  // of an earlier process, until the backend is heard
  std::size_t accepting_ = 0;                      // creates on their way into the store
  bool recovered_ = false, closing_ = false;
  std::optional<std::chrono::steady_clock::time_point> probed_at_;
  std::string probe_error_;  // of the last probe; "" is none
  TaskGroup tasks_;
};

// The token that execd asks for travels with the spec, where it is as durable as the create itself.
inline constexpr std::string_view kExecdTokenKey = "opensandbox.io/execd-token";
std::string execd_token_of(const SandboxRecord& record);

}  // namespace osb::server
