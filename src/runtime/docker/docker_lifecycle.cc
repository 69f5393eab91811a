#include "runtime/docker/docker_lifecycle.h"

#include <algorithm>

#include "api/isolation_extension.h"
#include "api/lifecycle_entrypoint.h"
#include "api/lifecycle_error.h"
#include "runtime/docker/container_limits.h"
#include "runtime/docker/engine_json.h"

namespace osb::runtime {

Result<void> DockerLifecycle::check(const api::CreateSandbox& create) const {
  const auto limits = container_limits(create.resource_limits, context_.options, context_.facts);
  if (!limits) return Failure(limits.error());
  if (auto words = api::entrypoint_words(create.entrypoint); !words) return Failure(words.error());
  if (!network_.missing().empty()) {
    return api::refuse(Code::InvalidRequest, api::reason::kInvalidParameter, network_.missing());
  }
  if (create.network_policy && api::wants_isolation(create.extensions)) {
    return api::invalid_parameter(api::join_pointer("/extensions", api::kIsolationExtension),
                                  "cannot be combined with a networkPolicy on docker: isolated sessions need "
                                  "CAP_SYS_ADMIN, which escapes it");
  }
  return check_docker_volumes(create.volumes);
}

net::awaitable<Result<void>> DockerLifecycle::check_volumes(const api::CreateSandbox& create) {
  const VolumeContext volumes{"", context_.engine, context_.pool, context_.options.allowed_host_paths,
                              context_.facts.local};
  co_return co_await look_at_volumes(volumes, create.volumes);
}

net::awaitable<Result<Instance>> DockerLifecycle::inspect(std::string id) {
  const auto container = co_await containers_.look_up(id);
  if (!container) co_return Failure(container.error());
  if (const Container* known = containers_.find(id); known != nullptr && known->id == container->id) {
    containers_.note(*container);
  }
  co_return containers_.describe(*container);
}

net::awaitable<Result<std::vector<Instance>>> DockerLifecycle::list() {
  if (auto taken = co_await watch_.take_stock(); !taken) co_return Failure(taken.error());
  co_return containers_.all();
}

net::awaitable<Result<void>> DockerLifecycle::freeze(std::string id, bool paused) {
  const auto answer =
      co_await context_.engine.call({.method = "POST", .target = container_path(id, paused ? "/pause" : "/unpause")});
  auto container = co_await containers_.look_up(id);
  // Docker calls a second pause a conflict or an internal error; only the present state counts.
  const bool is_so = container && container->status == (paused ? "paused" : "running");
  if (!answer && !is_so) co_return Failure(answer.error());
  if (container) containers_.note(std::move(*container));
  co_return Result<void>();
}

net::awaitable<bool> DockerLifecycle::has_policy(std::string id) {
  if (const Container* known = containers_.find(id)) co_return !known->egress_token.empty();
  const auto container = co_await containers_.look_up(std::move(id));
  co_return container && !container->egress_token.empty();
}

// The sidecar sleeps with its sandbox. It is awake whenever the sandbox is; a half that fails is taken back.
net::awaitable<Result<void>> DockerLifecycle::set_paused(std::string id, bool paused) {
  const bool policy = co_await has_policy(id);
  if (policy && !paused) {
    if (auto awake = co_await sidecars_.set_paused(id, false); !awake) co_return awake;
  }
  auto done = co_await freeze(id, paused);
  if (policy && done && paused) {
    done = co_await sidecars_.set_paused(id, true);
    if (!done) (void)co_await freeze(id, false);
  } else if (policy && !done && !paused) {
    (void)co_await sidecars_.set_paused(id, true);
  }
  if (!done) co_return done;
  containers_.announce(id);
  co_return Result<void>();
}

net::awaitable<std::vector<std::string>> DockerLifecycle::volumes_to_remove(std::string id) {
  if (const auto* left = creates_.leftover_volumes(id)) co_return *left;
  if (const Container* known = containers_.find(id)) co_return known->managed_volumes();
  const auto container = co_await containers_.look_up(id);
  co_return container ? container->managed_volumes() : std::vector<std::string>();
}

net::awaitable<Result<void>> DockerLifecycle::remove(std::string id) {
  if (!co_await creates_.give_up(id)) co_return fail(Code::Cancelled, "the server is ending");
  auto volumes = co_await volumes_to_remove(id);
  // First: Podman removes no container whose network another one uses. The kernel keeps the rules.
  co_await sidecars_.remove(id);
  const auto removed =
      co_await context_.engine.call({.method = "DELETE", .target = container_path(id, "?force=1&v=1")});
  if (!removed && removed.error().code == Code::Conflict) {
    // Another removal is under way; this returns when it is over, or finds no container any more.
    const auto gone =
        co_await context_.engine.call({.method = "POST", .target = container_path(id, "/wait?condition=removed")});
    if (!gone && gone.error().code != Code::NotFound) co_return Failure(gone.error());
  } else if (!removed && removed.error().code != Code::NotFound) {
    co_return Failure(removed.error());
  }
  creates_.forget_leftovers(id);
  containers_.forget(id);
  co_await network_.release(id);
  co_await remove_managed_volumes(context_.engine, std::move(volumes));
  co_return Result<void>();
}

net::awaitable<Result<ResourceUse>> DockerLifecycle::stats(std::string id) {
  // Without one-shot the engine takes two samples, a second apart.
  const char* how = context_.engine.version().minor >= 41 ? "/stats?stream=false&one-shot=true" : "/stats?stream=false";
  const auto answer = co_await context_.engine.call({.target = container_path(id, how)});
  if (!answer) co_return Failure(answer.error());
  const auto at = [&](engine::Path path) {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(engine::number(*answer, path), 0));
  };
  ResourceUse out;
  out.cpu_usec = at({"cpu_stats", "cpu_usage", "total_usage"}) / 1000;
  out.memory_bytes = at({"memory_stats", "usage"});
  out.memory_peak_bytes = std::max(at({"memory_stats", "max_usage"}), out.memory_bytes);
  // Without a limit of its own the engine reports the machine's memory.
  const Container* known = containers_.find(id);
  const std::uint64_t limit = at({"memory_stats", "limit"});
  if (limit > 0 && known != nullptr && known->memory_limit > 0) out.memory_limit_bytes = limit;
  out.pids = at({"pids_stats", "current"});
  out.oom_kills = known != nullptr && known->out_of_memory ? 1 : 0;
  co_return out;
}

}  // namespace osb::runtime
