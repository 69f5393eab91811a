#include "server/http/reach.h"

#include "server/http/wake.h"

namespace osb::server {
namespace {

// A request to a sandbox that is being created waits for it: clients then need not ask again and again.
constexpr std::chrono::seconds kPendingWait(30);

Error conflict(const SandboxService& service, const SandboxRecord& record) {
  Error error(Code::Conflict, "sandbox " + record.id + " is " + record.status.state);
  error.reason = service.reason("SANDBOX_NOT_RUNNING");
  return error;
}

}  // namespace

bool renews(const http::Request& request) { return request.headers.get("OpenSandbox-Access-Renew") != "skip"; }

net::awaitable<Result<Reached>> reach_running(SandboxService& service, SandboxPtr record, bool renew) {
  const std::string id = record->id;
  if (auto awake = co_await wake_for_access(service, record); !awake) co_return Failure(awake.error());
  if (renew) service.access_renewals().touch(*record);
  if (record->status.state == api::state::kPending) {
    record = co_await service.wait_settled(record, kPendingWait);
    if (!record) co_return Failure(service.get(id, Scope::all()).error());
    if (record->status.state == api::state::kPending) {
      co_return fail(Code::Unavailable, "sandbox " + id + " is still being created");
    }
  }
  const runtime::Instance* instance = service.instance(id);
  if (instance != nullptr && !instance->ports) {
    co_await service.wait_for_backend(kPendingWait);
    instance = service.instance(id);
  }
  if (record->status.state != api::state::kRunning || instance == nullptr) {
    co_return Failure(conflict(service, *record));
  }
  co_return Reached{std::move(record), instance};
}

}  // namespace osb::server
