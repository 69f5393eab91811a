#include "server/template/templates.h"

#include <algorithm>

#include "async/race.h"
#include "base/backoff.h"
#include "base/id.h"
#include "base/log.h"

namespace osb::server {

using namespace race;
using std::chrono::milliseconds;

namespace {

constexpr int kAtOnce = 2;
constexpr milliseconds kFirstRetry(500), kLastRetry(60'000);
constexpr std::size_t kMostQuoted = 300;
// The contract's limits, where the request names none. It has one of the disk too, which many hosts cannot set; there
// the operator's default counts.
constexpr const char *kCpu = "1", *kMemory = "512Mi";

namespace phase = api::template_phase;

Failure not_supported() {
  return api::refuse(Code::Unsupported, api::reason::kTemplatesNotSupported,
                     "this backend has no snapshots, which templates are made of");
}

// The log of a container also holds execd's own lines, such as those about the readiness probe.
bool is_of_execd(std::string_view line) {
  const auto begin = line.find("{\"time\":\"");  // behind the engine's own time
  return begin != std::string_view::npos && line.find("\"level\":\"", begin) != std::string_view::npos;
}

// The last line of the entrypoint's output, for a message.
std::string last_line(std::string_view text) {
  for (;;) {
    const auto end = text.find_last_not_of(" \r\n");
    if (end == std::string_view::npos) return "";
    text = text.substr(0, end + 1);
    const auto begin = text.rfind('\n') + 1;  // 0 if there is none
    const std::string_view line = text.substr(begin);
    if (!is_of_execd(line)) return std::string(line.substr(0, kMostQuoted));
    text = text.substr(0, begin);
  }
}

}  // namespace

struct Templates::Build {
  explicit Build(net::any_io_executor executor) : cancel(std::move(executor)) {}
  Event cancel;
  std::string step = "waiting for its turn";
};

Templates::Templates(const ServiceContext& context, Parts parts)
    : context_(context),
      parts_(parts),
      slots_(context.executor, kAtOnce, kNoLimit),
      waiters_(context.executor),
      sandbox_gone_(context.executor) {
  if (context.backend.snapshots() != nullptr) builder_.emplace(context, parts.states, parts.creates, parts.presence);
}

// ---- requests

net::awaitable<Result<TemplatePtr>> Templates::create(api::CreateTemplate wanted, const Principal& who) {
  if (!is_supported()) co_return not_supported();
  if (auto ok = api::check_create_template(wanted); !ok) co_return Failure(ok.error());
  if (auto target = parse_publish(wanted.publish, context_.options.publish); !target) {
    co_return Failure(target.error());
  }
  if (!wanted.resource_limits) wanted.resource_limits.emplace();
  wanted.resource_limits->emplace("cpu", kCpu);
  wanted.resource_limits->emplace("memory", kMemory);
  if (auto ok = check_workload(wanted); !ok) co_return Failure(ok.error());
  TemplateRecord record;
  record.id = "tpl-" + new_uuid();
  record.owner = who.owner;
  record.spec = std::make_shared<const api::CreateTemplate>(std::move(wanted));
  record.status.phase = phase::kPending;
  record.sandbox_id = new_uuid();
  record.snapshot_id = new_uuid();
  record.created_at = record.updated_at = context_.time.now();
  auto accepted = std::make_shared<const TemplateRecord>(record);
  if (auto stored = co_await context_.store.create_template(std::move(record)); !stored) {
    co_return Failure(stored.error());
  }
  begin(accepted->id);
  co_return accepted;
}

// The rules of a create hold for the sandbox that builds it, and for every one that is made of it.
Result<void> Templates::check_workload(const api::CreateTemplate& wanted) const {
  api::CreateRules rules;
  static_cast<api::BackendRules&>(rules) = context_.backend.capabilities();
  rules.now = context_.time.now();
  const api::CreateSandbox build = api::build_spec(wanted);
  if (auto ok = api::check_create(build, rules); !ok) return ok;
  return context_.lifecycle().check(build);
}

TemplatePtr Templates::shown(TemplatePtr record) const {
  const auto build = builds_.find(record->id);
  if (build == builds_.end() || !record->is_unfinished()) return record;
  auto out = std::make_shared<TemplateRecord>(*record);
  out->status.message = build->second->step;
  return out;
}

Result<TemplatePtr> Templates::get(std::string_view id, const Scope& scope) const {
  if (!is_supported()) return not_supported();
  if (auto record = context_.store.find_template(id, scope)) return shown(std::move(record));
  return api::refuse(Code::NotFound, api::reason::kTemplateNotFound, "template " + std::string(id) + " does not exist");
}

Result<Store::Page<TemplatePtr>> Templates::list(const api::TemplateQuery& query, const Scope& scope) const {
  if (!is_supported()) return not_supported();
  auto page = context_.store.list_templates(query, scope);
  for (TemplatePtr& record : page.items) record = shown(std::move(record));
  return page;
}

net::awaitable<Result<void>> Templates::remove(std::string id, Scope scope) {
  if (auto found = get(id, scope); !found) co_return Failure(found.error());
  const Timestamp now = context_.time.now();
  const auto changed = co_await context_.store.change_template(
      id, {phase::kPending, phase::kBuilding, phase::kSucceeded, phase::kFailed}, [now](TemplateRecord& record) {
        record.status = {std::string(phase::kDeleting), "", ""};
        record.updated_at = now;
      });
  if (!changed) {
    if (changed.error().code != Code::Conflict) co_return Failure(changed.error());
    co_return Failure(get(id, scope).error());  // another delete was faster
  }
  waiters_.notify(id);
  if (const auto build = builds_.find(id); build != builds_.end()) {
    build->second->cancel.set();  // cleans up at its end
  } else {
    context_.tasks.spawn("remove template", clean(id));
  }
  co_return Result<void>();
}

net::awaitable<Result<std::string>> Templates::log(std::string id, Scope scope) {
  const auto found = get(id, scope);
  if (!found) co_return Failure(found.error());
  if (!(*found)->is_unfinished()) co_return (*found)->log;
  co_return co_await builder_->log_of(*found);
}

net::awaitable<void> Templates::wait(std::string id, std::chrono::nanoseconds limit) {
  (void)co_await (until_finished(std::move(id)) || sleep_for(limit));
}

net::awaitable<bool> Templates::until_finished(std::string id) {
  for (;;) {
    const TemplatePtr record = context_.store.find_template(id);
    if (!record || !record->is_unfinished() || context_.closing) co_return true;
    if (!co_await waiters_.wait(id)) co_return false;
  }
}

// ---- builds

void Templates::recover() {
  if (!is_supported()) return;
  for (const TemplatePtr& record : context_.store.all_templates()) {
    if (record->is_unfinished()) {
      begin(record->id);
    } else if (!record->sandbox_id.empty() || record->status.phase != phase::kSucceeded) {
      context_.tasks.spawn("clean up template", clean(record->id));
    }
  }
}

void Templates::begin(const std::string& id) {
  auto build = std::make_shared<Build>(context_.executor);
  if (!builds_.emplace(id, build).second) return;
  context_.tasks.spawn("build template", run(id, std::move(build)));
}

net::awaitable<void> Templates::run(std::string id, std::shared_ptr<Build> build) {
  const struct Over {
    Templates& self;
    const std::string& id;
    ~Over() {
      self.builds_.erase(id);
      self.waiters_.notify(id);
    }
  } over{*this, id};
  const auto slot = slots_.enter();
  if (!co_await slot->wait_turn()) co_return;
  const Timestamp now = context_.time.now();
  auto record =
      co_await context_.store.change_template(id, {phase::kPending, phase::kBuilding}, [now](TemplateRecord& changed) {
        changed.status.phase = phase::kBuilding;
        changed.updated_at = now;
      });
  if (record) {
    log_info("building a template", {{"id", id}, {"image", (*record)->spec->image}});
    auto outcome = co_await builder_->build(*record, build->cancel, [&](std::string step) { build->step = step; });
    if (context_.closing) co_return;  // the next process goes on
    co_await end_build(*record, std::move(outcome), build->step);
  }
  co_await clean(id);
}

net::awaitable<void> Templates::end_build(TemplatePtr record, Result<std::string> outcome, std::string step) {
  const Timestamp now = context_.time.now();
  std::string log;
  api::TemplateStatus status;
  if (outcome) {
    status = {std::string(phase::kSucceeded), *outcome, ""};
    log_info("template built", {{"id", record->id}, {"published", *outcome}});
  } else {
    log = co_await builder_->log_of(record);
    status = {std::string(phase::kFailed), "", outcome.error().message};
    if (outcome.error().code == Code::Timeout) status.message += "; last step: " + step;
    if (const std::string line = last_line(log); !line.empty()) status.message += "; the log ends: " + line;
    log_warn("template not built", {{"id", record->id}, {"error", status.message}});
  }
  // Conflict: it was deleted meanwhile.
  (void)co_await context_.store.change_template(record->id, {phase::kBuilding}, [=](TemplateRecord& changed) {
    changed.status = status;
    changed.log = log;
    changed.updated_at = now;
  });
  waiters_.notify(record->id);
}

// ---- removal

void Templates::note_sandbox_gone() {
  ++sandboxes_gone_;
  sandbox_gone_.notify_all();
}

net::awaitable<void> Templates::clean(std::string id) {
  for (Backoff pause(kFirstRetry, kLastRetry);;) {
    const TemplatePtr record = context_.store.find_template(id);
    if (!record) co_return;
    const std::uint64_t seen = sandboxes_gone_;
    const auto done = co_await clean_once(record);
    if (context_.closing || (done && *done)) co_return;
    if (!done) log_warn("template not cleaned up", {{"id", id}, {"error", done.error().message}});
    const auto another_gone = [this, seen] { return sandboxes_gone_ != seen; };
    const auto outcome = co_await (sandbox_gone_.wait_until(another_gone) || sleep_for(pause.next()));
    if (!std::visit([](bool went_on) { return went_on; }, outcome)) co_return;
  }
}

// False: a sandbox stands on its snapshot.
net::awaitable<Result<bool>> Templates::clean_once(TemplatePtr record) {
  const std::string id = record->id;
  const std::vector<std::string_view> any = {phase::kSucceeded, phase::kFailed, phase::kDeleting};
  if (!record->sandbox_id.empty()) {
    if (auto removed = co_await remove_sandbox(record->sandbox_id); !removed) co_return Failure(removed.error());
    auto changed = co_await context_.store.change_template(id, any, [](TemplateRecord& r) { r.sandbox_id.clear(); });
    if (!changed) co_return Failure(changed.error());
    record = *changed;
  }
  if (record->status.phase == phase::kSucceeded) co_return true;
  if (!record->snapshot_id.empty()) {
    if (is_in_use(record->snapshot_id)) co_return false;
    const auto removed = co_await context_.backend.snapshots()->remove(record->snapshot_id);
    if (!removed && removed.error().code == Code::Conflict) co_return false;
    if (!removed) co_return Failure(removed.error());
    auto changed = co_await context_.store.change_template(id, any, [](TemplateRecord& r) { r.snapshot_id.clear(); });
    if (!changed) co_return Failure(changed.error());
    record = *changed;
  }
  if (record->status.phase != phase::kDeleting) co_return true;
  if (auto erased = co_await context_.store.erase_template(id); !erased) co_return Failure(erased.error());
  log_info("template removed", {{"id", id}});
  co_return true;
}

net::awaitable<Result<void>> Templates::remove_sandbox(std::string id) {
  if (context_.store.find(id)) {
    auto removed = co_await parts_.removals.remove(id, Scope::all());
    if (!removed && removed.error().code != Code::NotFound) co_return removed;
  }
  // A removal of an earlier process, or of a user, may be under way: the snapshot must not go before the sandbox.
  co_return co_await context_.lifecycle().remove(id);
}

bool Templates::is_in_use(const std::string& snapshot) const {
  return std::ranges::any_of(context_.store.all(),
                             [&](const SandboxPtr& record) { return record->spec->snapshot_id == snapshot; });
}

}  // namespace osb::server
