#include "execd/pty/pty_service.h"

#include <algorithm>
#include <utility>

#include "base/id.h"
#include "execd/run/account.h"

namespace osb::execd {

PtyService::PtyService(RunHost& host, CommandEnvironment& environment)
    : host_(host), environment_(environment), tasks_(host.executor()) {}

PtyService::~PtyService() = default;

Result<std::shared_ptr<PtySession>> PtyService::create(const api::CreatePty& request) {
  if (closing_) return fail(Code::Unavailable, "the daemon is shutting down");
  auto cwd = environment_.new_directory(request.cwd);
  if (!cwd) return Failure(cwd.error());
  sys::SpawnPlan process;
  if (auto set = set_account(users_, request.user, request.uid, request.gid, process); !set)
    return Failure(set.error());
  PtySession::Plan plan{new_uuid(), std::move(*cwd), request.command, request.envs};
  plan.uid = process.uid;
  plan.gid = process.gid;
  plan.groups = std::move(process.groups);
  auto session = std::make_shared<PtySession>(host_, environment_, tasks_, std::move(plan));
  sessions_.emplace(session->id(), session);
  return session;
}

std::shared_ptr<PtySession> PtyService::find(std::string_view id) const {
  const auto it = sessions_.find(id);
  return it == sessions_.end() ? nullptr : it->second;
}

net::awaitable<bool> PtyService::remove(std::string id) {
  const auto it = sessions_.find(id);
  if (it == sessions_.end()) co_return false;
  const auto session = it->second;
  sessions_.erase(it);
  co_await session->remove();
  co_return true;
}

net::awaitable<void> PtyService::shutdown() {
  closing_ = true;
  const auto all = std::exchange(sessions_, {});
  for (const auto& [id, session] : all) co_await session->remove();
  for (const auto& [id, session] : all) co_await session->ended();
  co_await tasks_.close();
}

bool PtyService::any_running() const {
  return std::ranges::any_of(sessions_, [](const auto& entry) { return entry.second->running(); });
}

}  // namespace osb::execd
