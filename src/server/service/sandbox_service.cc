#include "server/service/sandbox_service.h"

namespace osb::server {

SandboxService::SandboxService(net::any_io_executor executor, Store& store, runtime::Backend& backend,
                               const Clock& clock, ServiceOptions options)
    : tasks_(executor),
      context_{executor, store, backend, clock, std::move(options), tasks_},
      creations_(executor),
      deadline_queue_(executor, store),
      presence_(executor, clock, backend.lifecycle()),
      states_(context_, creations_, deadline_queue_),
      removals_(context_, states_, creations_, deadline_queue_, presence_,
                [this](const std::string& id) {
                  adoption_.forget(id);
                  access_renewals_.forget(id);
                  idle_policies_.forget(id);
                  templates_.note_sandbox_gone();
                }),
      deadlines_(context_, deadline_queue_, states_, removals_),
      pauses_(context_, states_),
      idle_policies_(context_, states_, pauses_),
      access_renewals_(context_),
      snapshots_(context_, states_),
      creates_(context_, {creations_, states_, removals_, snapshots_, presence_, deadline_queue_}),
      templates_(context_, {states_, creates_, removals_, presence_}),
      adoption_(context_, states_, removals_),
      reconciliation_(context_, {states_, creates_, removals_, adoption_, snapshots_, templates_, presence_}),
      readiness_(context_, presence_) {}

void SandboxService::start() {
  states_.on_change([this](const SandboxRecord& record) { idle_policies_.note(record); });
  for (const SandboxPtr& record : context_.store.all()) {
    states_.restore(*record);
    idle_policies_.note(*record);
  }
  snapshots_.start();
  tasks_.spawn("watch the backend", context_.lifecycle().watch(reconciliation_));
  tasks_.spawn("deadlines", deadlines_.run());
  tasks_.spawn("idle policies", idle_policies_.run());
}

void SandboxService::set_options(ServiceOptions options) {
  options.on_create_stage = std::move(context_.options.on_create_stage);
  options.policies = context_.options.policies;
  context_.options = std::move(options);
  creates_.set_limits(context_.options.max_concurrent_creates, context_.options.max_queued_creates);
}

void SandboxService::begin_close() {
  context_.closing = true;
  states_.notify_all();
  snapshots_.notify_all();
  templates_.notify_all();
}

net::awaitable<void> SandboxService::close() {
  begin_close();
  co_await tasks_.close();
  (void)co_await context_.store.flush();
}

net::awaitable<Result<SandboxPtr>> SandboxService::patch_metadata(std::string id, Scope scope,
                                                                  api::MetadataPatch patch) {
  auto found = get(id, scope);
  if (!found) co_return Failure(found.error());
  if (auto ok = api::check_metadata_patch(patch); !ok) co_return Failure(ok.error());
  if (patch.empty()) co_return *found;
  auto told = co_await context_.lifecycle().patch_metadata(id, patch);
  if (!told && told.error().code != Code::NotFound) co_return Failure(told.error());
  auto patched = co_await context_.store.patch_metadata(id, std::move(patch));
  if (!patched && patched.error().code == Code::NotFound) co_return get(id, scope);
  co_return patched;
}

net::awaitable<void> SandboxService::wait_for_backend(std::chrono::milliseconds limit) {
  if (!presence_.is_here()) co_await presence_.wait_reconciled(limit);
}

}  // namespace osb::server
