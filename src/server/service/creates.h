#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "server/access/principal.h"
#include "server/service/admission.h"
#include "server/service/backend_presence.h"
#include "server/service/creation.h"
#include "server/service/removals.h"
#include "server/service/sandbox_states.h"
#include "server/service/snapshot_service.h"

namespace osb::server {

// Creates: from a request to a sandbox that runs, and the answer to the client. Its arguments outlive it.
class Creates {
 public:
  struct Parts {
    Creations& creations;
    SandboxStates& states;
    Removals& removals;
    const SnapshotService& snapshots;
    BackendPresence& presence;
    const DeadlineQueue& deadlines;
  };
  Creates(const ServiceContext& context, Parts parts);

  struct Options {
    std::string id = {};               // of the sandbox; "": a new one. An id that is in use is Conflict.
    std::string idempotency_key = {};  // "" is none
    std::string fingerprint = {};      // of the body, with a key
    std::chrono::seconds wait{0};      // for Running or an error
  };
  struct Outcome {
    SandboxPtr record;   // nullptr: a repeated create whose sandbox is gone
    std::string answer;  // the answer of the first create
  };
  // A create that fails within the wait is an error and leaves nothing: no record, and its key can be used again. After
  // the wait the record tells what happens. Cancelling ends the wait, not the create.
  // `who` belongs to the request, which waits.
  net::awaitable<Result<Outcome>> create(api::CreateSandbox wanted, const Principal& who, Options options);
  // Carries on with a create that an earlier process had accepted.
  void resume(const SandboxPtr& record);

  bool is_under_way(const std::string& id) const { return parts_.creations.contains(id); }
  const Admission& admission() const { return admission_; }
  void set_limits(int running, int queued) { admission_.set_limits(running, queued); }

 private:
  struct Accepted {
    Store::Created created;
    std::unique_ptr<Creation::Answer> answer;  // null: nothing is under way
  };
  Result<void> check(const api::CreateSandbox& wanted, const Scope& scope) const;
  // Puts the policy of a template into the request, once.
  Result<void> apply_policy(api::CreateSandbox& wanted) const;
  // `carried`: by the backend's machine; 0 is unknown.
  Result<void> check_capacity(std::int64_t carried) const;
  // The same, and the questions to the backend. A backend that is away is Code::Unavailable.
  net::awaitable<Result<void>> check_with_backend(const api::CreateSandbox& wanted, const Scope& scope);
  // A durable record of the create, or of the earlier one with the same key. References belong to create(), which
  // waits.
  net::awaitable<Result<Accepted>> accept(api::CreateSandbox wanted, const Principal& who, const Options& options);
  SandboxPtr taken_over(const std::string& key) const;
  std::string choose_id(const Options& options) const;
  SandboxRecord make_record(std::string id, api::CreateSandbox wanted, const Owner& owner) const;
  Accepted join(Store::Created known, const std::string& key) const;
  bool key_is_free(const Options& options) const;
  // Before run().
  std::shared_ptr<Creation> prepare(const SandboxRecord& record);
  net::awaitable<void> run(std::string id, std::shared_ptr<AdmissionTicket> ticket);
  net::awaitable<void> end_failed(std::string id, Creation& creation, Error error);
  net::awaitable<Result<runtime::Instance>> create_in_backend(SandboxPtr record);
  net::awaitable<bool> wait_for_backend_or_removal(std::string id);
  void note_stage(CreateStage stage, std::chrono::steady_clock::time_point begin) const;

  const ServiceContext& context_;
  const Parts parts_;
  Admission admission_;
  std::size_t accepting_ = 0;  // creates on their way into the store
};

}  // namespace osb::server
