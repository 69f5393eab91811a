#include "server/service/sandbox_service.h"

#include <limits>

#include <boost/asio/experimental/awaitable_operators.hpp>

#include "api/lifecycle_error.h"
#include "base/id.h"
#include "base/log.h"
#include "runtime/labels.h"

namespace osb::server {

using namespace net::experimental::awaitable_operators;
using runtime::Instance;
using runtime::InstanceState;

namespace {

// More at once only makes the backend's queue longer.
constexpr int kRemovalsAtOnce = 64;
constexpr int kSnapshotsAtOnce = 2;
constexpr int kCreateTries = 3;
constexpr std::string_view kNotReady = "GENERAL::NOT_READY";
constexpr std::chrono::milliseconds kCreateRetry(5000);
// Probing writes to the disk, and anybody may ask.
constexpr std::chrono::milliseconds kProbeInterval(500);
constexpr int kNoLimit = std::numeric_limits<int>::max() / 2;

std::string token_of(const SandboxRecord& record) {
  const auto found = record.spec->extensions.find(std::string(kExecdTokenKey));
  return found == record.spec->extensions.end() ? "" : found->second;
}

}  // namespace

SandboxService::SandboxService(net::any_io_executor executor, Store& store, runtime::Backend& backend,
                               const Clock& clock, ServiceOptions options)
    : executor_(executor),
      store_(store),
      backend_(backend),
      clock_(clock),
      options_(std::move(options)),
      capabilities_(backend.capabilities()),
      admission_(executor, options_.max_concurrent_creates, options_.max_queued_creates),
      waiters_(executor),
      connected_(executor),
      reconnected_(executor),
      deadlines_moved_(executor),
      removal_slots_(executor, kRemovalsAtOnce, kNoLimit),
      snapshot_slots_(executor, kSnapshotsAtOnce, kNoLimit),
      tasks_(executor) {}

SandboxService::~SandboxService() = default;

void SandboxService::start() {
  for (const SandboxPtr& record : store_.all()) {
    note_ended(*record);
    Instance known;
    known.id = record->id;
    known.execd_token = token_of(*record);
    instances_.emplace(record->id, std::move(known));
  }
  for (const SnapshotPtr& snapshot : store_.all_snapshots()) {
    const std::string& state = snapshot->status.state;
    if (state == api::snapshot_state::kCreating || state == api::snapshot_state::kDeleting) {
      unfinished_snapshots_.push_back(snapshot->id);
    }
  }
  tasks_.spawn("watch the backend", backend_.watch(*this));
  tasks_.spawn("deadlines", run_deadlines());
}

void SandboxService::set_options(ServiceOptions options) {
  options.on_create_stage = std::move(options_.on_create_stage);
  options_ = std::move(options);
  admission_.set_limits(options_.max_concurrent_creates, options_.max_queued_creates);
}

void SandboxService::begin_close() {
  closing_ = true;
  waiters_.notify_all();
}

net::awaitable<void> SandboxService::close() {
  begin_close();
  co_await tasks_.close();
  (void)co_await store_.flush();
}

net::awaitable<Result<void>> SandboxService::check_ready() {
  if (closing_) co_return api::refuse(Code::Unavailable, kNotReady, "the server is ending");
  if (!connected_.is_set()) co_return api::refuse(Code::Unavailable, kNotReady, "the backend does not answer");
  const auto moment = clock_.steady_now();
  if (!probed_at_ || moment - *probed_at_ >= kProbeInterval) {
    // Those who ask meanwhile get the answer of before.
    probed_at_ = moment;
    const auto written = co_await store_.probe();
    probe_error_ = written ? "" : written.error().message;
  }
  if (!probe_error_.empty()) {
    co_return api::refuse(Code::Unavailable, kNotReady, "the records cannot be written: " + probe_error_);
  }
  co_return Result<void>();
}

Timestamp SandboxService::now() const { return std::chrono::floor<std::chrono::microseconds>(clock_.now()); }

std::string SandboxService::reason(std::string_view suffix) const {
  return api::backend_reason(capabilities_.name, suffix);
}

Result<SandboxPtr> SandboxService::get(std::string_view id) const {
  if (auto record = store_.find(id)) return record;
  return not_found(id);
}

Failure SandboxService::not_found(std::string_view id) const {
  return api::refuse(Code::NotFound, reason("SANDBOX_NOT_FOUND"), "sandbox " + std::string(id) + " does not exist");
}

const Instance* SandboxService::instance(std::string_view id) const {
  const auto found = instances_.find(std::string(id));
  return found == instances_.end() ? nullptr : &found->second;
}

// ---- create

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

net::awaitable<Result<SandboxService::CreateResult>> SandboxService::create(api::CreateSandbox wanted,
                                                                            CreateOptions options) {
  std::optional<IdempotencyKey> key;
  std::optional<Store::Created> known;
  if (!options.idempotency_key.empty()) {
    auto found = store_.find_key(options.idempotency_key, options.fingerprint, now());
    if (!found) co_return Failure(found.error());
    known = std::move(*found);
    key = IdempotencyKey{options.idempotency_key, options.fingerprint, ""};
  }
  if (!known) {
    if (auto ok = check(wanted); !ok) co_return Failure(ok.error());
    if (!wanted.volumes.empty()) {
      if (auto ok = co_await backend_.check_volumes(wanted); !ok) co_return Failure(ok.error());
      // Others came meanwhile.
      if (auto ok = check(wanted); !ok) co_return Failure(ok.error());
    }
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
    ++accepting_;
    const auto begin = clock_.steady_now();
    auto created = co_await store_.create(std::move(record), std::move(key));
    note_stage(CreateStage::Store, begin);
    --accepting_;
    if (!created) co_return Failure(created.error());
    if (created->fresh) begin_create(created->record, std::move(ticket));
    known = std::move(*created);
  }
  SandboxPtr record = known->record;
  if (record && options.wait.count() > 0) {
    if (auto settled = co_await wait_settled(record, options.wait)) record = std::move(settled);
  }
  co_return CreateResult{std::move(record), std::move(known->answer)};
}

void SandboxService::begin_create(const SandboxPtr& record, std::shared_ptr<AdmissionTicket> ticket) {
  Instance& instance = instances_[record->id];
  instance.id = record->id;
  instance.execd_token = token_of(*record);
  events_.note(record->id, record->created_at, record->status);
  creating_[record->id] = std::make_shared<Creation>(executor_);
  if (record->expires_at) deadlines_moved_.notify_all();
  tasks_.spawn("create sandbox", run_create(record->id, std::move(ticket)));
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
  if (!record) co_return;  // removed meanwhile: the removal waits for us and cleans up
  if (!made) {
    log_warn("sandbox not created", {{"id", id}, {"ms", ms}, {"error", made.error().message}});
    const std::string& code = made.error().reason;
    set_status(record, api::state::kFailed, code.empty() ? reason("SANDBOX_START_FAILED") : code, made.error().message);
    co_return;
  }
  log_info("sandbox created", {{"id", id}, {"ms", ms}});
  if (record->status.state == api::state::kPending) apply(*made);
}

net::awaitable<Result<Instance>> SandboxService::create_in_backend(SandboxPtr record) {
  for (int left = kCreateTries;;) {
    auto made = co_await backend_.create({record->id, record->spec, token_of(*record),
                                          runtime::make_labels(record->id, *record->spec, record->expires_at)});
    if (made) co_return made;
    // An earlier try, or an earlier process, was heard after all.
    if (made.error().code == Code::Conflict) co_return co_await backend_.inspect(record->id);
    if (made.error().code != Code::Unavailable || left <= 1 || !store_.find(record->id)) co_return made;
    log_warn("backend not reachable", {{"id", record->id}, {"error", made.error().message}});
    // What was accepted is done when the backend is back, however long that takes. One that can be reached and says
    // that it cannot is believed after a few tries.
    if (connected_.is_set()) {
      --left;
      co_await pause_before_retry(kCreateRetry);
    } else if (!co_await wait_for_backend_or_removal(record->id)) {
      co_return made;
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
  const auto outcome = co_await (connected_.wait() || removed());
  if (outcome.index() == 1 || !std::get<0>(outcome)) co_return false;
  co_return store_.find(id) != nullptr;
}

net::awaitable<void> SandboxService::wait_for_backend(std::chrono::milliseconds limit) {
  if (!connected_.is_set()) co_await pause_before_retry(limit);
}

net::awaitable<void> SandboxService::pause_before_retry(std::chrono::milliseconds limit) {
  (void)co_await (reconnected_.wait() || sleep_for(limit));
}

// ---- waiting

net::awaitable<SandboxPtr> SandboxService::wait_change(SandboxPtr seen, std::chrono::nanoseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  for (;;) {
    SandboxPtr record = store_.find(seen->id);
    if (!record || record->status != seen->status) co_return record;
    const auto left = deadline - std::chrono::steady_clock::now();
    if (closing_ || left <= left.zero()) co_return seen;
    // Looks once more, for what happens before || has begun to wait.
    const auto wait_once = [&]() -> net::awaitable<bool> {
      const SandboxPtr now = store_.find(seen->id);
      if (!now || now->status != seen->status || closing_) co_return true;
      co_return co_await waiters_.wait(seen->id);
    };
    const auto outcome = co_await (wait_once() || sleep_for(left));
    if (outcome.index() == 0 && !std::get<0>(outcome)) co_return seen;
    if (outcome.index() == 1 && !std::get<1>(outcome)) co_return seen;
  }
}

net::awaitable<SandboxPtr> SandboxService::wait_settled(SandboxPtr record, std::chrono::nanoseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (record && record->status.state == api::state::kPending) {
    const auto left = deadline - std::chrono::steady_clock::now();
    if (closing_ || left <= left.zero()) break;
    record = co_await wait_change(record, left);
  }
  co_return record;
}

}  // namespace osb::server
