#include "server/service/sandbox_service.h"

#include <limits>

#include <boost/asio/experimental/awaitable_operators.hpp>

#include "api/lifecycle_error.h"
#include "base/log.h"

namespace osb::server {

using namespace net::experimental::awaitable_operators;
using runtime::Instance;
using runtime::InstanceState;

namespace {

// More at once only makes the backend's queue longer.
constexpr int kRemovalsAtOnce = 64;
constexpr int kSnapshotsAtOnce = 2;
constexpr std::string_view kNotReady = "GENERAL::NOT_READY";
// Probing writes to the disk, and anybody may ask.
constexpr std::chrono::milliseconds kProbeInterval(500);
constexpr int kNoLimit = std::numeric_limits<int>::max() / 2;

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
      presence_(executor, clock, backend),
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
    known.execd_token = execd_token_of(*record);
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
  if (!presence_.is_here()) {
    // Anybody may ask, so addresses stay in the log.
    co_return api::refuse(Code::Unavailable, kNotReady, capabilities_.daemon + " does not answer");
  }
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
  const std::string how = gone_.find(id);
  return api::refuse(Code::NotFound, reason("SANDBOX_NOT_FOUND"),
                     "sandbox " + std::string(id) + ' ' + (how.empty() ? "does not exist" : how));
}

const Instance* SandboxService::instance(std::string_view id) const {
  const auto found = instances_.find(std::string(id));
  return found == instances_.end() ? nullptr : &found->second;
}

// ---- waiting

net::awaitable<void> SandboxService::wait_for_backend(std::chrono::milliseconds limit) {
  if (!presence_.is_here()) co_await pause_before_retry(limit);
}

net::awaitable<void> SandboxService::pause_before_retry(std::chrono::milliseconds limit) {
  (void)co_await (reconnected_.wait() || sleep_for(limit));
}

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
