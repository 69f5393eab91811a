#pragma once

#include "server/service/access_renewals.h"
#include "server/service/adoption.h"
#include "server/service/creates.h"
#include "server/service/deadlines.h"
#include "server/service/idle_policies.h"
#include "server/service/pauses.h"
#include "server/service/readiness.h"
#include "server/service/reconciliation.h"
#include "server/service/removals.h"
#include "server/service/sandbox_states.h"
#include "server/service/snapshot_service.h"
#include "server/template/templates.h"

namespace osb::server {

// The rules of the lifecycle API, on a store and a backend. The store knows what was promised and when it ends, the
// backend knows what is alive; the parts of the service keep the two in step. Lives on one loop; what it is given
// outlives it.
//
// An accepted create is durable before it is answered and goes on when the client leaves. A sandbox is Running only
// when the backend has said so. Of a renewal and an expiry that race one wins. A record that was taken out of the store
// is followed by a removal in the backend, also after a crash. Requests see the sandboxes in the scope of their
// principal; the others do not exist for them.
class SandboxService {
 public:
  using CreateOptions = Creates::Options;
  using CreateResult = Creates::Outcome;

  SandboxService(net::any_io_executor executor, Store& store, runtime::Backend& backend, const Clock& clock,
                 ServiceOptions options);

  // Begins to watch the backend and the deadlines, and carries on with the work of an earlier process.
  void start();
  // Other limits from now on; promises stay. The observer of stages and the policy templates stay.
  void set_options(ServiceOptions options);
  // Ends waiting and watching, so that requests which do so end as well.
  void begin_close();
  bool closing() const { return context_.closing; }
  // Stops all of it; sandboxes go on. Awaited before the service goes.
  net::awaitable<void> close();

  // --- sandboxes

  // `who` belongs to the request, which waits.
  net::awaitable<Result<CreateResult>> create(api::CreateSandbox wanted, const Principal& who, CreateOptions options) {
    return creates_.create(std::move(wanted), who, std::move(options));
  }
  Result<SandboxPtr> get(std::string_view id, const Scope& scope) const { return states_.get(id, scope); }
  net::awaitable<Result<void>> remove(std::string id, Scope scope) {
    return removals_.remove(std::move(id), std::move(scope));
  }
  net::awaitable<Result<void>> pause(std::string id, Scope scope) {
    return pauses_.pause(std::move(id), std::move(scope));
  }
  net::awaitable<Result<void>> resume(std::string id, Scope scope) {
    return pauses_.resume(std::move(id), std::move(scope));
  }
  net::awaitable<Result<Timestamp>> renew(std::string id, Scope scope, Timestamp until) {
    return deadlines_.renew(std::move(id), std::move(scope), until);
  }
  net::awaitable<Result<SandboxPtr>> patch_metadata(std::string id, Scope scope, api::MetadataPatch patch);

  net::awaitable<SandboxPtr> wait_change(SandboxPtr seen, std::chrono::nanoseconds limit) {
    return states_.wait_change(std::move(seen), limit);
  }
  net::awaitable<SandboxPtr> wait_settled(SandboxPtr record, std::chrono::nanoseconds limit) {
    return states_.wait_settled(std::move(record), limit);
  }
  const runtime::Instance* instance(std::string_view id) const { return states_.instance(id); }
  const EventHistory& events() const { return states_.events(); }
  AccessRenewals& access_renewals() { return access_renewals_; }
  IdlePolicies& idle_policies() { return idle_policies_; }
  SnapshotService& snapshots() { return snapshots_; }
  Templates& templates() { return templates_; }

  // --- the server itself

  const Store& store() const { return context_.store; }
  runtime::Backend& backend() const { return context_.backend; }
  const runtime::Capabilities& capabilities() const { return context_.backend.capabilities(); }
  const Admission& admission() const { return creates_.admission(); }
  bool backend_reachable() const { return presence_.is_here(); }
  // Until the backend answers. False: cancelled.
  net::awaitable<bool> until_backend_reachable() { return presence_.wait(); }
  // After a start only the backend has the addresses of sandboxes. Returns at once when it is connected.
  net::awaitable<void> wait_for_backend(std::chrono::milliseconds limit);
  net::awaitable<Result<void>> check_ready() { return readiness_.check(); }
  const ServerTime& time() const { return context_.time; }
  std::string reason(std::string_view suffix) const { return context_.reason(suffix); }  // "NATIVE::" + suffix

  // A timer calls it; tests with a fake clock do.
  Timestamp check_deadlines() { return deadlines_.check(); }
  // Hears the backend.
  runtime::Observer& observer() { return reconciliation_; }

 private:
  TaskGroup tasks_;
  ServiceContext context_;
  Creations creations_;
  DeadlineQueue deadline_queue_;
  BackendPresence presence_;
  SandboxStates states_;
  Removals removals_;
  Deadlines deadlines_;
  Pauses pauses_;
  IdlePolicies idle_policies_;
  AccessRenewals access_renewals_;
  SnapshotService snapshots_;
  Creates creates_;
  Templates templates_;
  Adoption adoption_;
  Reconciliation reconciliation_;
  Readiness readiness_;
};

}  // namespace osb::server
