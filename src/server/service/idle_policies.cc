#include "server/service/idle_policies.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "api/json.h"
#include "async/race.h"
#include "base/log.h"
#include "base/ports.h"

namespace osb::server {

using namespace race;
using std::chrono::seconds;
using std::chrono::steady_clock;

namespace {

constexpr std::size_t kMostWaiting = 256;
// A client waits longer than that by asking again.
constexpr seconds kWakeLimit(10);
constexpr seconds kExecdLimit(5);
constexpr std::size_t kMostAnswer = 64 << 10;

}  // namespace

// A sandbox that has an idle time.
struct IdlePolicies::Entry {
  IdlePolicies* owner = nullptr;  // null: not watched any more
  std::string id;
  seconds timeout{};
  steady_clock::time_point last;  // activity
  bool running = true;
  std::size_t accesses = 0;  // under way
  bool considered = false;   // consider() is under way

  bool can_become_idle() const { return owner != nullptr && running && accesses == 0 && !considered; }
  steady_clock::time_point due() const { return last + timeout; }
};

// A resume that requests wait for.
struct IdlePolicies::Wake {
  explicit Wake(net::any_io_executor executor) : over(std::move(executor)) {}
  Event over;
  Result<void> result;
  std::size_t waiting = 0;
};

IdlePolicies::IdlePolicies(const ServiceContext& context, SandboxStates& states, Pauses& pauses)
    : context_(context),
      states_(states),
      pauses_(pauses),
      client_(context.backend.connector()),
      moved_(context.executor) {}

IdlePolicies::~IdlePolicies() {
  for (const auto& [id, entry] : entries_) entry->owner = nullptr;
}

// ---- what is watched

void IdlePolicies::note(const SandboxRecord& record) {
  const auto& policy = record.spec->lifecycle.idle;
  if (!policy || !policy->timeout) return;
  if (record.has_ended()) return forget(record.id);
  auto& entry = entries_[record.id];
  if (!entry) {
    entry = std::make_shared<Entry>();
    entry->owner = this;
    entry->id = record.id;
    entry->timeout = *policy->timeout;
    entry->running = false;
  }
  const bool ran = std::exchange(entry->running, record.status.state == api::state::kRunning);
  if (ran || !entry->running) return;
  entry->last = context_.time.steady();
  arm(*entry);
}

void IdlePolicies::forget(const std::string& id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  found->second->owner = nullptr;
  entries_.erase(found);
}

void IdlePolicies::arm(Entry& entry) {
  if (next_ && entry.due() >= *next_) return;
  next_ = entry.due();
  moved_.notify_all();
}

IdlePolicies::Access::Access(std::shared_ptr<Entry> entry) : entry_(std::move(entry)) { ++entry_->accesses; }

IdlePolicies::Access::~Access() {
  if (!entry_ || --entry_->accesses > 0 || entry_->owner == nullptr) return;
  entry_->last = entry_->owner->context_.time.steady();
  entry_->owner->arm(*entry_);
}

IdlePolicies::Access IdlePolicies::begin_access(const SandboxRecord& record) {
  if (!record.spec->lifecycle.idle) return Access();
  const auto found = entries_.find(record.id);
  return found == entries_.end() ? Access() : Access(found->second);
}

void IdlePolicies::touch(const std::string& id) {
  if (const auto found = entries_.find(id); found != entries_.end()) found->second->last = context_.time.steady();
}

// ---- idle

std::optional<steady_clock::time_point> IdlePolicies::check() {
  const auto now = context_.time.steady();
  next_.reset();
  std::vector<std::shared_ptr<Entry>> due;
  for (const auto& [id, entry] : entries_) {
    if (!entry->can_become_idle()) continue;
    if (entry->due() <= now) {
      entry->considered = true;
      due.push_back(entry);
    } else if (!next_ || entry->due() < *next_) {
      next_ = entry->due();
    }
  }
  under_way_ += due.size();
  for (const auto& entry : due) context_.tasks.spawn("look at an idle sandbox", look_at(entry));
  return next_;
}

net::awaitable<void> IdlePolicies::run() {
  constexpr std::chrono::hours kLongest(24);
  for (;;) {
    const auto next = check();
    const auto left = next ? *next - context_.time.steady() : std::chrono::nanoseconds(kLongest);
    const auto outcome = co_await (sleep_for(left) || moved_.wait());
    if (!std::visit([](bool went_on) { return went_on; }, outcome)) co_return;
  }
}

net::awaitable<void> IdlePolicies::look_at(std::shared_ptr<Entry> entry) {
  co_await consider(std::move(entry));
  --under_way_;
}

net::awaitable<void> IdlePolicies::consider(std::shared_ptr<Entry> entry) {
  const SandboxPtr record = context_.store.find(entry->id);
  const bool active = record && co_await is_active(entry, *record->spec->lifecycle.idle);
  entry->considered = false;
  if (active) entry->last = std::max(entry->last, context_.time.steady());
  // From here to the pause nothing else runs on the loop: a request either came before and counts, or sees Pausing.
  if (!record || !entry->can_become_idle()) co_return;
  if (entry->due() > context_.time.steady()) co_return arm(*entry);
  log_info("pausing an idle sandbox", {{"id", entry->id}, {"seconds", entry->timeout.count()}});
  const auto paused = co_await pauses_.pause(entry->id, Scope::all());
  if (paused || !entry->can_become_idle()) co_return;
  log_warn("idle sandbox not paused", {{"id", entry->id}, {"error", paused.error().message}});
  entry->last = context_.time.steady();
  arm(*entry);
}

// A sandbox that cannot be asked may be busy: it is asked again later.
net::awaitable<bool> IdlePolicies::is_active(std::shared_ptr<Entry> entry, api::IdlePolicy policy) {
  const runtime::Instance* instance = states_.instance(entry->id);
  if (instance == nullptr || !instance->ports) co_return true;
  http::ClientRequest request;
  const runtime::Route route = instance->ports->route(kExecdPort);
  request.target = route.path + "/activity";
  request.headers.set("X-EXECD-ACCESS-TOKEN", instance->execd_token);
  request.timeouts.connect = request.timeouts.head = kExecdLimit;
  request.timeouts.body_stall = kExecdLimit;
  auto answer = co_await client_.send(route.origin, std::move(request));
  if (!answer) {
    log_warn("execd does not say whether it is idle", {{"id", entry->id}, {"error", answer.error().message}});
    co_return true;
  }
  if (answer->status == 200) {
    const auto text = co_await answer->body->read_all(kMostAnswer);
    const auto value = text ? api::parse_json(*text) : Failure(text.error());
    if (!value) co_return true;
    api::ObjectReader r(*value, {});
    const bool active = r.optional_bool("active").value_or(true);
    const auto idle = std::chrono::milliseconds(r.optional_int64("idle_ms", 0).value_or(0));
    if (r.failed() || active) co_return true;
    entry->last =
        std::max(entry->last, context_.time.steady() - std::min<std::chrono::nanoseconds>(idle, entry->timeout));
  } else if (answer->status != 404) {  // an execd that is older than the question
    co_return true;
  }
  if (!policy.probe) co_return false;
  co_return co_await probe(entry->id, *policy.probe);
}

// A program that does not answer in time may be too busy to; one that is not there, or answers with anything else, is
// idle.
net::awaitable<bool> IdlePolicies::probe(std::string id, api::ActiveProbe wanted) {
  const runtime::Instance* instance = states_.instance(id);
  if (instance == nullptr || !instance->ports) co_return true;
  http::ClientRequest request;
  const runtime::Route route = instance->ports->route(wanted.port);
  request.target = route.path + wanted.path;
  if (!route.path.empty()) request.headers.set("X-EXECD-ACCESS-TOKEN", instance->execd_token);
  request.headers.set("Host", "sandbox:" + std::to_string(wanted.port));
  request.timeouts.connect = request.timeouts.head = wanted.timeout;
  request.timeouts.body_stall = wanted.timeout;
  auto answer = co_await client_.send(route.origin, std::move(request));
  auto text = answer && answer->status == 200 ? co_await answer->body->read_all(kMostAnswer) : Result<std::string>();
  if (!answer || !text) {
    const Error& why = answer ? text.error() : answer.error();
    log_warn("activeProbe failed", {{"id", id}, {"port", wanted.port}, {"error", why.message}});
    co_return why.code == Code::Timeout;
  }
  const auto value = api::parse_json(*text);
  if (!value) co_return false;
  api::ObjectReader r(*value, {});
  co_return r.optional_bool("active").value_or(false);
}

// ---- wake

net::awaitable<Result<void>> IdlePolicies::wake(std::string id) {
  std::shared_ptr<Wake> wake = wakes_[id];
  if (!wake) {
    wakes_[id] = wake = std::make_shared<Wake>(context_.executor);
    context_.tasks.spawn("wake sandbox", run_wake(id, wake));  // may be over when this returns
  }
  if (wake->waiting >= kMostWaiting) {
    co_return fail(Code::Unavailable, "more than " + std::to_string(kMostWaiting) + " requests wait for sandbox " + id +
                                          ", which is being resumed; send the request again");
  }
  ++wake->waiting;
  (void)co_await (wake->over.wait() || sleep_for(kWakeLimit));
  --wake->waiting;
  if (wake->over.is_set()) co_return wake->result;
  co_return fail(Code::Unavailable, "sandbox " + id + " is still being resumed; send the request again");
}

net::awaitable<void> IdlePolicies::run_wake(std::string id, std::shared_ptr<Wake> wake) {
  const struct Over {
    IdlePolicies& self;
    const std::string& id;
    Wake& wake;
    ~Over() {
      self.wakes_.erase(id);
      wake.over.set();
    }
  } over{*this, id, *wake};
  wake->result = fail(Code::Unavailable, "the server is ending");
  SandboxPtr record = context_.store.find(id);
  // A pause or resume that is under way ends first.
  while (record && (record->status.state == api::state::kPausing || record->status.state == api::state::kResuming)) {
    const SandboxPtr next = co_await states_.wait_change(record, kWakeLimit);
    if (next == record) break;
    record = next;
  }
  if (record && record->status.state == api::state::kPaused) {
    log_info("waking a sandbox", {{"id", id}});
    wake->result = co_await pauses_.resume(id, Scope::all());
    record = context_.store.find(id);
    if (!wake->result && record && record->status.state == api::state::kRunning) wake->result = Result<void>();
    if (!wake->result) log_warn("sandbox not woken", {{"id", id}, {"error", wake->result.error().message}});
  } else {
    wake->result = Result<void>();  // it runs, or has ended: the request finds out
  }
}

}  // namespace osb::server
