#include "server/service/creates.h"

#include <algorithm>
#include <array>

#include "api/egress_environment.h"
#include "async/race.h"
#include "base/id.h"
#include "base/log.h"
#include "runtime/labels.h"
#include "server/access/secure_access.h"
#include "server/service/check_policy.h"
#include "server/template/template_source.h"
#include "tls/sha256.h"

namespace osb::server {

using namespace race;
using runtime::Instance;

namespace {

constexpr int kCreateTries = 3;
constexpr std::chrono::milliseconds kCreateRetry(5000);
// An extension of the create request: "true" refuses a name that another sandbox has (Store::create()).
constexpr std::string_view kUniqueNameKey = "name.unique";
// The egress sidecar of other backends always enforces.
constexpr std::array<std::string_view, 3> kAuditingBackends = {"NATIVE", "DOCKER", "KUBERNETES"};

// The same on every server; in the form of a UUID, version 8.
std::string id_of_key(std::string_view key) {
  const auto sum = tls::sha256(key);
  std::string out;
  for (std::size_t i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) out += '-';
    const int byte = i == 6 ? 0x80 | (sum[i] & 0x0f) : i == 8 ? 0x80 | (sum[i] & 0x3f) : sum[i];
    out += "0123456789abcdef"[byte >> 4];
    out += "0123456789abcdef"[byte & 15];
  }
  return out;
}

// Accepted, as the contract says, but a caller would look for their effect in vain.
void warn_of_dropped_names(const SandboxRecord& record, std::string_view backend) {
  const bool has_policy = record.spec->network_policy.has_value();
  const std::string names = api::dropped_egress_names(record.spec->env, has_policy, backend != "NATIVE");
  if (names.empty()) return;
  log_warn("variables of the create have no effect",
           {{"id", record.id},
            {"names", names},
            {"why", has_policy ? "this backend enforces all policies with one process" : "there is no networkPolicy"}});
}

}  // namespace

Creates::Creates(const ServiceContext& context, Parts parts)
    : context_(context),
      parts_(parts),
      admission_(context.executor, context.options.max_concurrent_creates, context.options.max_queued_creates) {}

void Creates::note_stage(CreateStage stage, std::chrono::steady_clock::time_point begin) const {
  if (context_.options.on_create_stage) context_.options.on_create_stage(stage, context_.time.steady() - begin);
}

Result<void> Creates::check(const api::CreateSandbox& wanted, const Scope& scope) const {
  api::CreateRules rules;
  static_cast<api::BackendRules&>(rules) = context_.backend.capabilities();
  rules.now = context_.time.now();
  rules.max_timeout = context_.options.max_timeout;
  rules.allowed_host_paths = context_.options.allowed_host_paths;
  if (auto ok = api::check_create_source(wanted, rules); !ok) return ok;
  if (!wanted.template_id.empty()) {
    if (auto usable = find_usable_template(context_.store, wanted.template_id, scope); !usable) {
      return Failure(usable.error());
    }
  } else if (!wanted.snapshot_id.empty()) {
    const auto snapshot = parts_.snapshots.get(wanted.snapshot_id, scope);
    if (!snapshot) return Failure(snapshot.error());
    if ((*snapshot)->status.state != api::snapshot_state::kReady) {
      return api::refuse(Code::Conflict, api::reason::kSnapshotNotReady,
                         "snapshot " + wanted.snapshot_id + " is " + (*snapshot)->status.state);
    }
  }
  if (auto ok = api::check_create(wanted, rules); !ok) return ok;
  if (auto ok = check_network_policy(wanted); !ok) return ok;
  if (auto ok = context_.lifecycle().check(wanted); !ok) return ok;
  return check_capacity(rules.max_sandboxes);
}

Result<void> Creates::apply_policy(api::CreateSandbox& wanted) const {
  // The request of an earlier create that failed has its policy already.
  if (wanted.extensions.contains(std::string(kPolicyModeKey))) return {};
  const runtime::Capabilities& can = context_.backend.capabilities();
  if (auto ok = apply_template(*context_.options.policies, can.no_network_policy, wanted); !ok) return ok;
  const auto mode = wanted.extensions.find(std::string(kPolicyModeKey));
  if (mode == wanted.extensions.end() || mode->second != "audit") return {};
  if (std::ranges::find(kAuditingBackends, can.backend) != kAuditingBackends.end()) return {};
  return api::invalid_parameter(api::join_pointer("/extensions", kPolicyTemplateKey),
                                "this backend has no audit mode for network policies");
}

Result<void> Creates::check_capacity(std::int64_t carried) const {
  const std::size_t records = context_.store.size();
  const std::size_t live = records - std::min(records, parts_.deadlines.ended()) + accepting_;
  const std::int64_t most = context_.options.max_sandboxes < 0 ? carried : context_.options.max_sandboxes;
  if (most > 0 && live >= static_cast<std::size_t>(most)) {
    return api::refuse(
        Code::Exhausted, api::reason::kCapacityExceeded,
        "this server holds all the " + std::to_string(most) + " sandboxes it may ([admission] max_sandboxes)");
  }
  if (admission_.full()) {
    return api::refuse(Code::Exhausted, api::reason::kCapacityExceeded,
                       "too many creates are waiting ([admission] max_queued_creates)");
  }
  return {};
}

net::awaitable<Result<void>> Creates::check_with_backend(const api::CreateSandbox& wanted, const Scope& scope) {
  if (auto ok = check(wanted, scope); !ok) co_return ok;
  bool waited = false;
  if (!parts_.presence.is_here()) {
    waited = true;
    if (!co_await parts_.presence.look_again()) {
      co_return api::refuse(Code::Unavailable, context_.reason("UNAVAILABLE"),
                            "no sandbox can be created: " + context_.backend.capabilities().daemon +
                                " does not answer (" + parts_.presence.why_not() + "); try again later");
    }
  }
  if (!wanted.volumes.empty()) {
    waited = true;
    if (auto ok = co_await context_.lifecycle().check_volumes(wanted); !ok) co_return ok;
  }
  // Other creates were accepted meanwhile.
  co_return waited ? check(wanted, scope) : Result<void>();
}

net::awaitable<Result<Creates::Accepted>> Creates::accept(api::CreateSandbox wanted, const Principal& who,
                                                          const Options& options) {
  std::optional<IdempotencyKey> key;
  if (!options.idempotency_key.empty()) {
    auto known = context_.store.find_key(options.idempotency_key, options.fingerprint, context_.time.now());
    if (!known) co_return Failure(known.error());
    if (*known) co_return join(std::move(**known), options.idempotency_key);
    // The same create may have reached another server, whose sandbox this one has taken over.
    if (const auto taken = taken_over(options.idempotency_key)) {
      co_return join({taken, false, taken->id, api::encode_created(taken->view())}, options.idempotency_key);
    }
    key = IdempotencyKey{options.idempotency_key, options.fingerprint, ""};
  }
  if (!wanted.template_id.empty()) {
    auto made = create_from_template(context_.store, wanted, who.scope());
    if (!made) co_return Failure(made.error());
    wanted = std::move(*made);
  }
  if (auto ok = apply_policy(wanted); !ok) co_return Failure(ok.error());
  if (auto ok = co_await check_with_backend(wanted, who.scope()); !ok) co_return Failure(ok.error());
  auto ticket = admission_.enter();
  SandboxRecord record = make_record(choose_id(options), std::move(wanted), who.owner);
  if (key) key->answer = api::encode_created(record.view());
  const std::string id = record.id;
  const auto unique = record.spec->extensions.find(std::string(kUniqueNameKey));
  const bool unique_name = unique != record.spec->extensions.end() && unique->second == "true";
  // A repeated create may find the record before this coroutine knows that it is durable: it must find the creation
  // too.
  parts_.creations.add(id);
  ++accepting_;
  const auto begin = context_.time.steady();
  auto created = co_await context_.store.create(std::move(record), std::move(key), unique_name);
  note_stage(CreateStage::Store, begin);
  --accepting_;
  if (!created || !created->fresh) parts_.creations.erase(id);
  if (!created) {
    // Taken over in this moment.
    const auto taken = options.idempotency_key.empty() ? nullptr : taken_over(options.idempotency_key);
    if (!taken || created.error().code != Code::Conflict) co_return Failure(created.error());
    co_return join({taken, false, taken->id, api::encode_created(taken->view())}, options.idempotency_key);
  }
  if (!created->fresh) co_return join(std::move(*created), options.idempotency_key);
  warn_of_dropped_names(*created->record, context_.backend.capabilities().backend);
  // The answer waits before the create begins: it may fail at once.
  auto answer = std::make_unique<Creation::Answer>(prepare(*created->record), options.idempotency_key);
  context_.tasks.spawn("create sandbox", run(id, std::move(ticket)));
  co_return Accepted{std::move(*created), std::move(answer)};
}

SandboxPtr Creates::taken_over(const std::string& key) const {
  return context_.backend.capabilities().ids_from_keys ? context_.store.find(id_of_key(key)) : nullptr;
}

std::string Creates::choose_id(const Options& options) const {
  if (!options.id.empty()) return options.id;
  if (options.idempotency_key.empty() || !context_.backend.capabilities().ids_from_keys) return new_uuid();
  std::string id = id_of_key(options.idempotency_key);
  // An earlier sandbox of this key is still on its way out.
  return parts_.removals.contains(id) ? new_uuid() : id;
}

SandboxRecord Creates::make_record(std::string id, api::CreateSandbox wanted, const Owner& owner) const {
  const Moment accepted = context_.time.moment();
  SandboxRecord record;
  record.id = std::move(id);
  record.owner = owner;
  record.metadata = wanted.metadata;
  record.created_at = accepted.wall;
  if (wanted.timeout) record.expires_at = record.created_at + *wanted.timeout;
  record.access_renew = api::access_renew_seconds(wanted).value_or(std::nullopt);
  record.status = {std::string(api::state::kPending), "CONTAINER_STARTING", "The sandbox is waiting to be created.",
                   record.created_at};
  record.execd_token = new_hex_id() + new_hex_id();
  if (wanted.network_policy) record.egress_token = new_token();
  record.spec = std::make_shared<const api::CreateSandbox>(std::move(wanted));
  record.clock_set_by = accepted.set_by;
  return record;
}

Creates::Accepted Creates::join(Store::Created known, const std::string& key) const {
  Accepted out{std::move(known), nullptr};
  if (!out.created.record) return out;
  if (auto creation = parts_.creations.find(out.created.record->id)) {
    out.answer = std::make_unique<Creation::Answer>(std::move(creation), key);
  }
  return out;
}

net::awaitable<Result<Creates::Outcome>> Creates::create(api::CreateSandbox wanted, const Principal& who,
                                                         Options options) {
  if (wanted.extensions.contains(std::string(kPolicyModeKey))) {
    co_return api::invalid_parameter(api::join_pointer("/extensions", kPolicyModeKey),
                                     "the server sets it, from the mode of the policy template");
  }
  if (!options.idempotency_key.empty()) options.idempotency_key = stored_key(who.owner, options.idempotency_key);
  const auto deadline = context_.time.steady() + options.wait;
  for (;;) {
    auto accepted = co_await accept(std::move(wanted), who, options);
    if (!accepted) co_return Failure(accepted.error());
    Store::Created& known = accepted->created;
    SandboxPtr record = known.record;
    // Also a create that an earlier process began, and that the backend carries out without us.
    (void)co_await parts_.states.wait_settled(record, deadline - context_.time.steady());
    if (accepted->answer) {
      if (auto told = co_await accepted->answer->settle(); !told) co_return Failure(told.error());
    }
    if (record) {
      if (auto current = context_.store.find(record->id)) {
        record = std::move(current);
      } else if (!known.fresh && key_is_free(options)) {
        // The first create has failed and was withdrawn while this one came in.
        wanted = *record->spec;
        continue;
      }
    }
    co_return Outcome{std::move(record), std::move(known.answer)};
  }
}

bool Creates::key_is_free(const Options& options) const {
  const auto known = context_.store.find_key(options.idempotency_key, options.fingerprint, context_.time.now());
  return known && !*known;
}

std::shared_ptr<Creation> Creates::prepare(const SandboxRecord& record) {
  parts_.states.add(record, record.created_at);
  return parts_.creations.add(record.id);
}

void Creates::resume(const SandboxPtr& record) {
  prepare(*record);
  context_.tasks.spawn("create sandbox", run(record->id, admission_.enter()));
}

net::awaitable<void> Creates::run(std::string id, std::shared_ptr<AdmissionTicket> ticket) {
  const std::shared_ptr<Creation> creation = parts_.creations.add(id);
  const struct Over {
    Creations& all;
    const std::string& id;
    Creation& creation;
    ~Over() {
      all.erase(id);
      creation.over.set();
    }
  } over{parts_.creations, id, *creation};
  const auto queued = context_.time.steady();
  if (!co_await ticket->wait_turn()) co_return;
  note_stage(CreateStage::Queue, queued);
  SandboxPtr record = context_.store.find(id);
  if (!record) co_return;
  creation->handed = true;
  const auto begin = context_.time.steady();
  auto made = co_await create_in_backend(record);
  note_stage(CreateStage::Backend, begin);
  const auto ms = std::chrono::duration<double, std::milli>(context_.time.steady() - begin).count();
  record = context_.store.find(id);
  if (!record) co_return;                    // removed meanwhile: the removal waits for us and cleans up
  if (!made && context_.closing) co_return;  // the next process tries again
  if (!made) {
    log_warn("sandbox not created", {{"id", id}, {"ms", ms}, {"error", made.error().message}});
    co_return co_await end_failed(id, *creation, create_failure(made.error(), context_.backend.capabilities().backend));
  }
  log_info("sandbox created", {{"id", id}, {"ms", ms}});
  if (record->status.state == api::state::kPending) parts_.states.apply(*made);
}

// `creation` belongs to run(), which waits. A crash in here leaves a Pending record: the next process tries the
// create again.
net::awaitable<void> Creates::end_failed(std::string id, Creation& creation, Error error) {
  if (creation.is_withdrawable()) {
    creation.begin_withdrawal();
    const auto taken = co_await context_.store.begin_remove(id, creation.idempotency_key());
    if (taken) parts_.removals.begin(id);
    if (taken || taken.error().code == Code::NotFound) co_return creation.withdraw(std::move(error));
    log_error("record of a failed create stays", {{"id", id}, {"error", taken.error().message}});
    creation.end_withdrawal();
  }
  if (const SandboxPtr record = context_.store.find(id)) {
    parts_.states.set(record, api::state::kFailed, std::move(error.reason), std::move(error.message));
  }
}

net::awaitable<Result<Instance>> Creates::create_in_backend(SandboxPtr record) {
  for (int left = kCreateTries;;) {
    auto made = co_await context_.lifecycle().create(
        {record->id, record->spec, record->execd_token, record->egress_token,
         runtime::make_labels(record->id, *record->spec, record->expires_at), secure_access_token(*record)});
    if (made) co_return made;
    // An earlier try, or an earlier process, has reached the backend after all.
    if (made.error().code == Code::Conflict) co_return co_await context_.lifecycle().inspect(record->id);
    if (made.error().code != Code::Unavailable || left <= 1 || !context_.store.find(record->id)) co_return made;
    log_warn("backend not reachable", {{"id", record->id}, {"error", made.error().message}});
    // A create that was accepted waits for the backend, however long that takes. If the backend answers but reports an
    // error, a few tries are enough.
    if (parts_.presence.is_here()) {
      --left;
      co_await parts_.presence.wait_reconciled(kCreateRetry);
    } else {
      if (const SandboxPtr now = context_.store.find(record->id)) {
        parts_.states.set(
            now, now->status.state, "BACKEND_UNAVAILABLE",
            context_.backend.capabilities().daemon + " does not answer; the sandbox is created when it is back");
      }
      if (!co_await wait_for_backend_or_removal(record->id)) co_return made;
    }
  }
}

// False: the sandbox is not wanted any more, or the server is ending.
net::awaitable<bool> Creates::wait_for_backend_or_removal(std::string id) {
  const auto outcome = co_await (parts_.presence.wait() || parts_.states.wait_removed(id));
  if (outcome.index() == 1 || !std::get<0>(outcome)) co_return false;
  co_return context_.store.find(id) != nullptr;
}

}  // namespace osb::server
