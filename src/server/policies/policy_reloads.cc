#include "server/policies/policy_reloads.h"

#include "async/directory_watch.h"
#include "async/race.h"
#include "base/log.h"

namespace osb::server {

using namespace race;

void PolicyReloads::reload() {
  const auto changed = library_.reload();
  if (!changed)
    return log_error("policy templates not reloaded, the old ones stay", {{"error", changed.error().message}});
  if (*changed) log_info("policy templates reloaded", {{"templates", library_.templates().size()}});
}

// Until the directory is another one, or is lost. False: cancelled.
net::awaitable<bool> PolicyReloads::follow(std::filesystem::path directory) {
  auto watch = DirectoryWatch::open(executor_, directory);
  if (!watch) {
    log_error("policy templates are not watched, SIGHUP looks again", {{"error", watch.error().message}});
    co_return co_await asked_.wait();
  }
  for (;;) {
    reload();  // also what happened before the watch began
    const auto outcome = co_await (watch->changed() || asked_.wait());
    if (outcome.index() == 1) co_return std::get<1>(outcome);
    const Result<void>& told = std::get<0>(outcome);
    if (told) continue;
    if (told.error().code == Code::Cancelled) co_return false;
    log_error("policy templates are not watched, the old ones stay", {{"error", told.error().message}});
    co_return true;
  }
}

net::awaitable<void> PolicyReloads::run() {
  for (;;) {
    const std::filesystem::path directory = library_.options().directory;
    const bool go_on = directory.empty() ? co_await asked_.wait() : co_await follow(directory);
    if (!go_on) co_return;
  }
}

}  // namespace osb::server
