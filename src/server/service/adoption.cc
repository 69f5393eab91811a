#include "server/service/adoption.h"

#include <algorithm>

#include "base/log.h"
#include "runtime/labels.h"

namespace osb::server {

using runtime::Instance;
using runtime::InstanceState;

namespace {

constexpr std::string_view kUnknownImage = "unknown";

SandboxRecord record_of(const Instance& instance, const runtime::Marked& mark, Timestamp now) {
  api::CreateSandbox spec;
  spec.snapshot_id = mark.snapshot_id;
  spec.template_id = mark.template_id;
  if (mark.snapshot_id.empty()) {
    spec.image = api::ImageSpec{instance.image.empty() ? std::string(kUnknownImage) : instance.image, std::nullopt};
  }
  spec.platform = mark.platform;
  spec.resource_limits = api::StringMap();  // in force in the backend, unknown here
  spec.metadata = mark.metadata;
  spec.entrypoint = instance.entrypoint;
  if (spec.entrypoint.empty()) spec.entrypoint = {"tail", "-f", "/dev/null"};
  spec.extensions = mark.extensions;
  spec.secure_access = mark.secure_access;
  spec.lifecycle.idle = mark.idle;
  if (mark.access_renew) spec.extensions[std::string(api::kAccessRenewKey)] = *mark.access_renew;
  SandboxRecord record;
  record.access_renew = api::access_renew_seconds(spec).value_or(std::nullopt);
  if (mark.access_renew && !record.access_renew) spec.extensions.erase(std::string(api::kAccessRenewKey));
  record.id = instance.id;
  record.execd_token = instance.execd_token;
  record.egress_token = instance.egress_token;
  record.metadata = spec.metadata;
  record.created_at = std::min(instance.created_at.value_or(now), now);
  record.expires_at = mark.expires_at;
  record.status = {std::string(api::state::kPending), "CONTAINER_STARTING", "The sandbox was found without a record.",
                   record.created_at};
  record.spec = std::make_shared<const api::CreateSandbox>(std::move(spec));
  return record;
}

}  // namespace

bool Adoption::consider(const Instance& instance) {
  const std::string& id = instance.id;
  if (instance.state == InstanceState::Removing || context_.store.find(id)) return false;
  if (const auto mark = runtime::read_labels(id, instance.labels); !mark && mark.error().code == Code::NotFound) {
    return false;
  }
  if (removals_.contains(id)) return true;
  if (adopting_.insert(id).second) context_.tasks.spawn("adopt sandbox", run(id));
  return true;
}

net::awaitable<void> Adoption::run(std::string id) {
  const auto adopted = co_await adopt(id);
  if (!adopted) log_error("sandbox not taken over", {{"id", id}, {"error", adopted.error().message}});
  adopting_.erase(id);
}

net::awaitable<Result<void>> Adoption::adopt(std::string id) {
  // The report may be old: the sandbox can have been removed by us since.
  auto instance = co_await context_.lifecycle().inspect(id);
  if (!instance) {
    co_return instance.error().code == Code::NotFound ? Result<void>() : Result<void>(Failure(instance.error()));
  }
  const bool removed_meanwhile = !adopting_.contains(id) || removals_.contains(id);
  if (removed_meanwhile || context_.store.find(id) || instance->state == InstanceState::Removing) {
    co_return Result<void>();
  }
  const auto mark = runtime::read_labels(id, instance->labels);
  if (!mark && mark.error().code == Code::NotFound) co_return Result<void>();
  if (!mark || (mark->expires_at && *mark->expires_at <= context_.time.running())) {
    log_warn("removing a sandbox without a record",
             {{"id", id}, {"why", mark ? std::string_view("past its deadline") : mark.error().message}});
    removals_.begin(id);
    co_return Result<void>();
  }
  const auto created = co_await context_.store.create(record_of(*instance, *mark, context_.time.now()), std::nullopt);
  if (!created) co_return Failure(created.error());
  states_.add(*created->record, context_.time.now());
  instance = co_await context_.lifecycle().inspect(id);
  if (instance) {
    states_.apply(*instance);
  } else if (instance.error().code == Code::NotFound) {
    states_.note_gone(id);
  }
  log_warn("took over a sandbox without a record", {{"id", id}});
  co_return Result<void>();
}

}  // namespace osb::server
