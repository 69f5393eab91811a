#include "server/service/access_renewals.h"

#include "base/log.h"

namespace osb::server {

bool AccessRenewals::applies_to(const SandboxRecord& record) const {
  return context_.options.renew_on_access && record.access_renew && record.expires_at &&
         record.status.state == api::state::kRunning;
}

void AccessRenewals::touch(const SandboxRecord& record) {
  if (!applies_to(record)) return;
  const auto moment = context_.time.steady();
  const auto [last, first] = renewed_.try_emplace(record.id, moment);
  if (!first && moment - last->second < context_.options.min_renew_interval) return;
  last->second = moment;
  context_.tasks.spawn("renew on access", renew(record.id));
}

void AccessRenewals::touch_by_gateway(const std::string& id) {
  const SandboxPtr record = context_.store.find(id);
  if (record && applies_to(*record)) context_.tasks.spawn("renew on access", renew(id));
}

net::awaitable<void> AccessRenewals::renew(std::string id) {
  const auto extended = co_await context_.store.extend(id, context_.time.moment());
  if (!extended) co_return log_warn("not renewed on access", {{"id", id}, {"error", extended.error().message}});
  if (!(*extended)->expires_at) co_return;
  const auto told = co_await context_.lifecycle().set_deadline(id, *(*extended)->expires_at);
  if (!told) log_warn("backend not told of a renewal", {{"id", id}, {"error", told.error().message}});
}

}  // namespace osb::server
