// From an accepted request to a sandbox that runs, and the answer to the client.

#include <boost/asio/experimental/awaitable_operators.hpp>

#include "api/lifecycle_error.h"
#include "base/id.h"
#include "base/log.h"
#include "runtime/labels.h"
#include "server/service/sandbox_service.h"

namespace osb::server {

using namespace net::experimental::awaitable_operators;
using runtime::Instance;

namespace {

constexpr int kCreateTries = 3;
constexpr std::chrono::milliseconds kCreateRetry(5000);
// An extension of the create request: "true" refuses a name that another sandbox has (Store::create()).
constexpr std::string_view kUniqueNameKey = "name.unique";

}  // namespace

std::string execd_token_of(const SandboxRecord& record) {
  const auto found = record.spec->extensions.find(std::string(kExecdTokenKey));
  return found == record.spec->extensions.end() ? "" : found->second;
}

Result<void> SandboxService::check(const api::CreateSandbox& wanted) const {
  api::CreateRules rules;
  rules.backend = capabilities_.name;
  rules.now = now();
  rules.max_timeout = options_.max_timeout;
  rules.allowed_host_paths = options_.allowed_host_paths;
  rules.kubernetes_quantities = capabilities_.kubernetes_quantities;
  rules.pools = capabilities_.pools;
  rules.no_network_policy = capabilities_.no_network_policy;
  rules.no_credential_proxy = capabilities_.no_credential_proxy;
  rules.no_secure_access = capabilities_.no_secure_access;
  rules.no_windows = capabilities_.no_windows;
  if (auto ok = api::check_create_source(wanted, rules); !ok) return ok;
  if (!wanted.snapshot_id.empty()) {
    const auto snapshot = get_snapshot(wanted.snapshot_id);
    if (!snapshot) return Failure(snapshot.error());
    if ((*snapshot)->status.state != api::snapshot_state::kReady) {
      return api::refuse(Code::Conflict, api::reason::kSnapshotNotReady,
                         "snapshot " + wanted.snapshot_id + " is " + (*snapshot)->status.state);
    }
  }
  if (auto ok = api::check_create(wanted, rules); !ok) return ok;
  if (auto ok = backend_.check(wanted); !ok) return ok;
  const std::size_t live = store_.size() - std::min(store_.size(), ended_.size()) + accepting_;
  if (options_.max_sandboxes > 0 && live >= static_cast<std::size_t>(options_.max_sandboxes)) {
    return api::refuse(Code::Exhausted, api::reason::kCapacityExceeded,
                       "this server holds all the " + std::to_string(options_.max_sandboxes) +
                           " sandboxes it may ([admission] max_sandboxes)");
  }
  if (admission_.full()) {
    return api::refuse(Code::Exhausted, api::reason::kCapacityExceeded,
                       "too many creates are waiting ([admission] max_queued_creates)");
  }
  return {};
}

net::awaitable<Result<void>> SandboxService::check_with_backend(const api::CreateSandbox& wanted) {
  if (auto ok = check(wanted); !ok) co_return ok;
  bool waited = false;
  if (!presence_.is_here()) {
    waited = true;
    if (!co_await presence_.look_again()) {
      co_return api::refuse(Code::Unavailable, reason("UNAVAILABLE"),
                            "no sandbox can be created: " + capabilities_.daemon + " does not answer (" +
                                presence_.why_not() + "); try again later");
    }
  }
  if (!wanted.volumes.empty()) {
    waited = true;
    if (auto ok = co_await backend_.check_volumes(wanted); !ok) co_return ok;
  }
  // Other creates were accepted meanwhile.
  co_return waited ? check(wanted) : Result<void>();
}

net::awaitable<Result<SandboxService::Accepted>> SandboxService::accept(api::CreateSandbox wanted,
                                                                        const CreateOptions& options) {
  std::optional<IdempotencyKey> key;
  if (!options.idempotency_key.empty()) {
    auto known = store_.find_key(options.idempotency_key, options.fingerprint, now());
    if (!known) co_return Failure(known.error());
    if (*known) co_return join(std::move(**known), options.idempotency_key);
    key = IdempotencyKey{options.idempotency_key, options.fingerprint, ""};
  }
  if (auto ok = co_await check_with_backend(wanted); !ok) co_return Failure(ok.error());
  auto ticket = admission_.enter();
  SandboxRecord record;
  record.id = new_uuid();
  record.metadata = wanted.metadata;
  const Moment accepted = moment();
  record.created_at = accepted.wall;
  if (wanted.timeout) record.expires_at = record.created_at + *wanted.timeout;
  record.access_renew = api::access_renew_seconds(wanted.extensions).value_or(std::nullopt);
  record.status = {std::string(api::state::kPending), "CONTAINER_STARTING", "The sandbox is waiting to be created.",
                   record.created_at};
  wanted.extensions[std::string(kExecdTokenKey)] = new_hex_id() + new_hex_id();
  record.spec = std::make_shared<const api::CreateSandbox>(std::move(wanted));
  record.clock_set_by = accepted.set_by;
  if (key) key->answer = api::encode_created(record.view());
  const std::string id = record.id;
  const auto unique = record.spec->extensions.find(std::string(kUniqueNameKey));
  const bool unique_name = unique != record.spec->extensions.end() && unique->second == "true";
  // A repeated create may find the record before we are told that it is durable: it must find the creation too.
  creating_[id] = std::make_shared<Creation>(executor_);
  ++accepting_;
  const auto begin = clock_.steady_now();
  auto created = co_await store_.create(std::move(record), std::move(key), unique_name);
  note_stage(CreateStage::Store, begin);
  --accepting_;
  if (!created || !created->fresh) creating_.erase(id);
  if (!created) co_return Failure(created.error());
  if (!created->fresh) co_return join(std::move(*created), options.idempotency_key);
  // The answer waits before the create begins: it may fail at once.
  auto answer = std::make_unique<Creation::Answer>(prepare_create(created->record), options.idempotency_key);
  tasks_.spawn("create sandbox", run_create(id, std::move(ticket)));
  co_return Accepted{std::move(*created), std::move(answer)};
}

SandboxService::Accepted SandboxService::join(Store::Created known, const std::string& key) {
  Accepted out{std::move(known), nullptr};
  if (!out.created.record) return out;
  const auto creating = creating_.find(out.created.record->id);
  if (creating != creating_.end()) out.answer = std::make_unique<Creation::Answer>(creating->second, key);
  return out;
}

net::awaitable<Result<SandboxService::CreateResult>> SandboxService::create(api::CreateSandbox wanted,
                                                                            CreateOptions options) {
  const auto deadline = std::chrono::steady_clock::now() + options.wait;
  for (;;) {
    auto accepted = co_await accept(std::move(wanted), options);
    if (!accepted) co_return Failure(accepted.error());
    Store::Created& known = accepted->created;
    SandboxPtr record = known.record;
    if (accepted->answer) {
      (void)co_await wait_settled(record, deadline - std::chrono::steady_clock::now());
      if (auto told = co_await accepted->answer->settle(); !told) co_return Failure(told.error());
    }
    if (record) {
      if (auto current = store_.find(record->id)) {
        record = std::move(current);
      } else if (!known.fresh && key_is_free(options)) {
        // The first create has failed and was withdrawn while this one came in.
        wanted = *record->spec;
        wanted.extensions.erase(std::string(kExecdTokenKey));
        continue;
      }
    }
    co_return CreateResult{std::move(record), std::move(known.answer)};
  }
}

bool SandboxService::key_is_free(const CreateOptions& options) const {
  const auto known = store_.find_key(options.idempotency_key, options.fingerprint, now());
  return known && !*known;
}

std::shared_ptr<Creation> SandboxService::prepare_create(const SandboxPtr& record) {
  Instance& instance = instances_[record->id];
  instance.id = record->id;
  instance.execd_token = execd_token_of(*record);
  events_.note(record->id, record->created_at, record->status);
  if (record->expires_at) deadlines_moved_.notify_all();
  std::shared_ptr<Creation>& creation = creating_[record->id];
  if (!creation) creation = std::make_shared<Creation>(executor_);
  return creation;
}

net::awaitable<void> SandboxService::run_create(std::string id, std::shared_ptr<AdmissionTicket> ticket) {
  const std::shared_ptr<Creation> creation = creating_[id];
  const struct Over {
    SandboxService& self;
    const std::string& id;
    Creation& creation;
    ~Over() {
      self.creating_.erase(id);
      creation.over.set();
    }
  } over{*this, id, *creation};
  const auto queued = clock_.steady_now();
  if (!co_await ticket->wait_turn()) co_return;
  note_stage(CreateStage::Queue, queued);
  SandboxPtr record = store_.find(id);
  if (!record) co_return;
  creation->handed = true;
  const auto begin = clock_.steady_now();
  auto made = co_await create_in_backend(record);
  note_stage(CreateStage::Backend, begin);
  const auto ms = std::chrono::duration<double, std::milli>(clock_.steady_now() - begin).count();
  record = store_.find(id);
  if (!record) co_return;            // removed meanwhile: the removal waits for us and cleans up
  if (!made && closing_) co_return;  // the next process tries again
  if (!made) {
    log_warn("sandbox not created", {{"id", id}, {"ms", ms}, {"error", made.error().message}});
    co_return co_await end_failed_create(id, *creation, create_failure(made.error(), capabilities_.name));
  }
  log_info("sandbox created", {{"id", id}, {"ms", ms}});
  if (record->status.state == api::state::kPending) apply(*made);
}

// `creation` belongs to run_create(), which waits. A crash in here leaves a Pending record: the next process tries the
// create again.
net::awaitable<void> SandboxService::end_failed_create(std::string id, Creation& creation, Error error) {
  if (creation.is_withdrawable()) {
    creation.begin_withdrawal();
    const auto taken = co_await store_.begin_remove(id, creation.idempotency_key());
    if (taken) begin_removal(id);
    if (taken || taken.error().code == Code::NotFound) co_return creation.withdraw(std::move(error));
    log_error("record of a failed create stays", {{"id", id}, {"error", taken.error().message}});
    creation.end_withdrawal();
  }
  if (const SandboxPtr record = store_.find(id)) {
    set_status(record, api::state::kFailed, std::move(error.reason), std::move(error.message));
  }
}

net::awaitable<Result<Instance>> SandboxService::create_in_backend(SandboxPtr record) {
  for (int left = kCreateTries;;) {
    auto made = co_await backend_.create({record->id, record->spec, execd_token_of(*record),
                                          runtime::make_labels(record->id, *record->spec, record->expires_at)});
    if (made) co_return made;
    // An earlier try, or an earlier process, was heard after all.
    if (made.error().code == Code::Conflict) co_return co_await backend_.inspect(record->id);
    if (made.error().code != Code::Unavailable || left <= 1 || !store_.find(record->id)) co_return made;
    log_warn("backend not reachable", {{"id", record->id}, {"error", made.error().message}});
    // A create that was accepted waits for the backend, however long that takes. If the backend answers but reports an
    // error, a few tries are enough.
    if (presence_.is_here()) {
      --left;
      co_await pause_before_retry(kCreateRetry);
    } else {
      if (const SandboxPtr now = store_.find(record->id)) {
        set_status(now, now->status.state, "BACKEND_UNAVAILABLE",
                   capabilities_.daemon + " does not answer; the sandbox is created when it is back");
      }
      if (!co_await wait_for_backend_or_removal(record->id)) co_return made;
    }
  }
}

// False: the sandbox is not wanted any more, or the server is ending.
net::awaitable<bool> SandboxService::wait_for_backend_or_removal(std::string id) {
  // Looks once more, for what happens before || has begun to wait.
  const auto removed = [&]() -> net::awaitable<bool> {
    while (store_.find(id)) {
      if (!co_await waiters_.wait(id)) co_return false;
    }
    co_return true;
  };
  const auto outcome = co_await (presence_.wait() || removed());
  if (outcome.index() == 1 || !std::get<0>(outcome)) co_return false;
  co_return store_.find(id) != nullptr;
}

}  // namespace osb::server
