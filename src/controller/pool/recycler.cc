#include "controller/pool/recycler.h"

#include <string>
#include <utility>

#include "base/log.h"
#include "controller/names.h"
#include "controller/pool/restart.h"
#include "kubernetes/api_status.h"
#include "kubernetes/pod_streams.h"

namespace osb::controller {
namespace {

constexpr std::chrono::milliseconds kCommandTime{10'000};

Timestamp now_of(const Cluster& cluster) {
  return std::chrono::floor<std::chrono::microseconds>(cluster.clock().now());
}

}  // namespace

net::awaitable<Result<Recycler::Outcome>> Recycler::recycle(const Pool* pool, PodFacts pod) {
  if (pool != nullptr && pool->recycle == Recycle::Noop) co_return Outcome{.done = true, .pod_left = true};
  if (pool != nullptr && pool->recycle == Recycle::Restart) co_return co_await restart(*pool, std::move(pod));
  auto removed = co_await cluster_.remove(Kind::PoolPods, pod.object);
  if (!removed) co_return Failure(removed.error());
  co_return Outcome{.done = true};
}

net::awaitable<Result<Recycler::Outcome>> Recycler::restart(const Pool& pool, PodFacts pod) {
  const RestartConfig config = RestartConfig::parse(kubernetes::annotation(*pool.object, keys::kRestartConfig));
  const RestartStep step = plan_restart(pod, config, now_of(cluster_));
  const Key key = kubernetes::key_of(*pod.object);
  switch (step.what) {
    case RestartStep::Do::Done:
      co_return Outcome{.done = true, .pod_left = true};
    case RestartStep::Do::Wait:
      co_return Outcome{.again = step.wait};
    case RestartStep::Do::Delete: {
      auto removed = co_await cluster_.remove(Kind::PoolPods, pod.object);
      if (!removed) co_return Failure(removed.error());
      co_return Outcome{.done = true};
    }
    case RestartStep::Do::Kill:
      break;
  }
  auto noted = co_await cluster_.patch(
      Kind::PoolPods, key, {{"metadata", {{"annotations", {{keys::kRestartRecord, step.record.to_json()}}}}}});
  if (!noted && kubernetes::is_not_found(noted.error())) co_return Outcome{.done = true};
  if (!noted) co_return Failure(noted.error());
  for (const std::string& container : step.containers) {
    // The command ends the container that runs it, and its own connection: its outcome says nothing.
    const auto ran = co_await kubernetes::run_in_pod(cluster_.client(), key,
                                                     {.command = config.command, .container = container}, kCommandTime);
    if (!ran) {
      log_info("restart command not confirmed",
               {{"pod", key.to_string()}, {"container", container}, {"error", ran.error().message}});
    }
  }
  co_return Outcome{.again = step.wait};
}

net::awaitable<Result<void>> Recycler::unclaim(PodFacts pod) {
  if (pod.claim.empty()) co_return Result<void>();
  auto done = co_await cluster_.patch(
      Kind::PoolPods, kubernetes::key_of(*pod.object),
      {{"metadata", {{"annotations", {{keys::kClaim, nullptr}, {keys::kRestartRecord, nullptr}}}}}});
  if (!done && !kubernetes::is_not_found(done.error())) co_return Failure(done.error());
  co_return Result<void>();
}

}  // namespace osb::controller
