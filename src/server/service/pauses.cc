#include "server/service/pauses.h"

namespace osb::server {
namespace {

// The backend's stream of changes is a few milliseconds behind at most.
constexpr std::chrono::seconds kStreamDelay(1);
constexpr std::chrono::seconds kSettleWait(10);

bool is_between(const std::string& state) { return state == api::state::kPausing || state == api::state::kResuming; }

}  // namespace

net::awaitable<Result<void>> Pauses::set(std::string id, Scope scope, bool paused) {
  const std::string_view from = paused ? api::state::kRunning : api::state::kPaused;
  const std::string_view under_way = paused ? api::state::kPausing : api::state::kResuming;
  auto found = states_.get(id, scope);
  if (!found) co_return Failure(found.error());
  SandboxPtr record = *found;
  if (is_between(record->status.state) && !states_.is_in_transition(id)) {
    // The server was restarted, or lost the backend, before it heard how an earlier pause ended. The backend knows.
    record = co_await states_.wait_change(record, kSettleWait);
    if (!record) co_return states_.not_found(id, scope);
  }
  if (record->status.state != from) {
    co_return api::refuse(Code::Conflict, context_.reason(paused ? "SANDBOX_NOT_RUNNING" : "SANDBOX_NOT_PAUSED"),
                          "sandbox " + id + " is " + record->status.state);
  }
  const SandboxStates::Transition transition(states_, id);
  const api::Status before = record->status;
  states_.set(record, under_way, paused ? "CONTAINER_PAUSING" : "CONTAINER_RESUMING", "");
  auto done = paused ? co_await context_.lifecycle().pause(id) : co_await context_.lifecycle().resume(id);
  record = context_.store.find(id);
  if (!record) co_return states_.not_found(id, scope);
  if (!done) {
    if (record->status.state == under_way) states_.set(record, before.state, before.reason, before.message);
    Error error = done.error();
    error.code = Code::Internal;  // the contract's 500, for any error of the backend
    error.reason = context_.reason(paused ? "SANDBOX_PAUSE_FAILED" : "SANDBOX_RESUME_FAILED");
    co_return Failure(std::move(error));
  }
  // The stream of changes tells the state, in order; the client sees it when it has its answer.
  if (record->status.state == under_way) (void)co_await states_.wait_change(record, kStreamDelay);
  co_return Result<void>();
}

}  // namespace osb::server
