// Sandboxes that live and have no record: the store was lost, or the record was. What carries our mark gets one again;
// what is past its deadline, or does not say when it ends, is removed. Nothing else is touched.

#include <algorithm>

#include "base/log.h"
#include "runtime/labels.h"
#include "server/service/sandbox_service.h"

namespace osb::server {

using runtime::Instance;
using runtime::InstanceState;

namespace {

constexpr std::string_view kUnknownImage = "unknown";

SandboxRecord record_of(const Instance& instance, const runtime::Marked& mark, Timestamp now) {
  api::CreateSandbox spec;
  spec.snapshot_id = mark.snapshot_id;
  if (mark.snapshot_id.empty()) {
    spec.image = api::ImageSpec{instance.image.empty() ? std::string(kUnknownImage) : instance.image, std::nullopt};
  }
  spec.platform = mark.platform;
  spec.resource_limits = api::StringMap();  // in force in the backend, unknown here
  spec.metadata = mark.metadata;
  spec.entrypoint = instance.entrypoint;
  if (spec.entrypoint.empty()) spec.entrypoint = {"tail", "-f", "/dev/null"};
  if (mark.access_renew) spec.extensions[std::string(api::kAccessRenewKey)] = *mark.access_renew;
  SandboxRecord record;
  record.access_renew = api::access_renew_seconds(spec.extensions).value_or(std::nullopt);
  if (mark.access_renew && !record.access_renew) spec.extensions.erase(std::string(api::kAccessRenewKey));
  if (!instance.execd_token.empty()) spec.extensions[std::string(kExecdTokenKey)] = instance.execd_token;
  record.id = instance.id;
  record.metadata = spec.metadata;
  record.created_at = std::min(instance.created_at.value_or(now), now);
  record.expires_at = mark.expires_at;
  record.status = {std::string(api::state::kPending), "CONTAINER_STARTING", "The sandbox was found without a record.",
                   record.created_at};
  record.spec = std::make_shared<const api::CreateSandbox>(std::move(spec));
  return record;
}

}  // namespace

bool SandboxService::consider_adoption(const Instance& instance) {
  const std::string& id = instance.id;
  if (instance.state == InstanceState::Removing || store_.find(id)) return false;
  if (const auto mark = runtime::read_labels(id, instance.labels); !mark && mark.error().code == Code::NotFound) {
    return false;
  }
  if (removals_.contains(id)) return true;
  if (adopting_.insert(id).second) tasks_.spawn("adopt sandbox", adopt(id));
  return true;
}

net::awaitable<void> SandboxService::adopt(std::string id) {
  const auto adopted = co_await try_to_adopt(id);
  if (!adopted) log_error("sandbox not taken over", {{"id", id}, {"error", adopted.error().message}});
  adopting_.erase(id);
}

net::awaitable<Result<void>> SandboxService::try_to_adopt(std::string id) {
  // What was said may be old: it can have been removed by us since.
  auto instance = co_await backend_.inspect(id);
  if (!instance) {
    co_return instance.error().code == Code::NotFound ? Result<void>() : Result<void>(Failure(instance.error()));
  }
  const bool removed_meanwhile = !adopting_.contains(id) || removals_.contains(id);
  if (removed_meanwhile || store_.find(id) || instance->state == InstanceState::Removing) co_return Result<void>();
  const auto mark = runtime::read_labels(id, instance->labels);
  if (!mark && mark.error().code == Code::NotFound) co_return Result<void>();
  if (!mark || (mark->expires_at && *mark->expires_at <= running())) {
    log_warn("removing a sandbox without a record",
             {{"id", id}, {"why", mark ? std::string_view("past its deadline") : mark.error().message}});
    begin_removal(id);
    co_return Result<void>();
  }
  auto created = co_await store_.create(record_of(*instance, *mark, now()), std::nullopt);
  if (!created) co_return Failure(created.error());
  events_.note(id, now(), created->record->status);
  deadlines_moved_.notify_all();
  instance = co_await backend_.inspect(id);
  if (instance) {
    apply(*instance);
  } else if (instance.error().code == Code::NotFound) {
    on_removed(id);
  }
  log_warn("took over a sandbox without a record", {{"id", id}});
  co_return Result<void>();
}

}  // namespace osb::server
