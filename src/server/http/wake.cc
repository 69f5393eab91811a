#include "server/http/wake.h"

#include "server/http/answer.h"
#include "server/http/proxied_request.h"

namespace osb::server {
namespace {

constexpr std::string_view kExpired = "SANDBOX::WAKE_EXPIRED";
constexpr std::string_view kPaused = "SANDBOX::PAUSED";

bool is_asleep(const std::string& state) {
  return state == api::state::kPaused || state == api::state::kPausing || state == api::state::kResuming;
}

}  // namespace

net::awaitable<Result<void>> wake_for_access(SandboxService& service, SandboxPtr& record) {
  const auto& policy = record->spec->lifecycle.idle;
  if (!policy || !is_asleep(record->status.state)) co_return Result<void>();
  if (!policy->wake_on_access) {
    co_return api::refuse(Code::Unavailable, kPaused,
                          "sandbox " + record->id + " is paused and its idlePolicy has wakeOnAccess false; resume it");
  }
  const std::string id = record->id;
  const auto woken = co_await service.idle_policies().wake(id);
  if (!woken) co_return api::refuse(Code::Unavailable, kExpired, woken.error().message);
  auto now = service.get(id, Scope::all());
  if (!now) co_return Failure(now.error());
  record = *now;
  if (is_asleep(record->status.state)) {
    co_return api::refuse(Code::Unavailable, kExpired, "sandbox " + id + " was paused again; send the request again");
  }
  co_return Result<void>();
}

std::optional<Error> fell_asleep(const SandboxService& service, const SandboxRecord& record, const Error& why) {
  const auto& policy = record.spec->lifecycle.idle;
  if (why.reason != kConnectionFailed || !policy || !policy->wake_on_access) return std::nullopt;
  // It may run again by now.
  const auto now = service.get(record.id, Scope::all());
  if (!now || (*now)->status.last_transition_at == record.status.last_transition_at) return std::nullopt;
  return api::refuse(Code::Unavailable, kExpired, "sandbox " + record.id + " was being paused; send the request again")
      .error();
}

http::Response access_refusal(const Error& error) {
  http::Response out = refusal(error);
  if (error.reason == kExpired) {
    out.headers.set(std::string(kWakeHeader), "expired");
    out.headers.set("Retry-After", "1");
  }
  return out;
}

}  // namespace osb::server
