#include "runtime/kubernetes/kubernetes_lifecycle.h"

#include <boost/json/array.hpp>

#include "api/lifecycle_error.h"
#include "async/race.h"
#include "async/timer.h"
#include "base/backoff.h"
#include "base/log.h"
#include "base/ports.h"
#include "kubernetes/api_status.h"
#include "runtime/kubernetes/manifest.h"
#include "runtime/kubernetes/workload.h"
#include "runtime/labels.h"

namespace osb::runtime {

using namespace race;
namespace json = boost::json;
namespace resources = kubernetes::resources;

namespace {

constexpr std::string_view kApiError = "KUBERNETES::API_ERROR", kQuota = "KUBERNETES::QUOTA_EXCEEDED",
                           kPodFailed = "KUBERNETES::POD_FAILED", kTooLate = "KUBERNETES::POD_READY_TIMEOUT",
                           kNoPool = "KUBERNETES::POOL_NOT_FOUND", kPoolEmpty = "KUBERNETES::POOL_CAPACITY_EXHAUSTED";
constexpr std::string_view kAnyPool = "*";
// Between two questions to an execd that has not answered.
constexpr std::chrono::milliseconds kFirstAsk(1), kLastAsk(250);
constexpr std::chrono::milliseconds kAskLimit(2000);

bool is_quota(std::string_view message) { return message.contains("exceeded quota"); }

// The API server's refusal of a create, in the contract's codes.
Error refusal(Error error, std::string_view what) {
  error.message = std::string(what) + ": " + error.message;
  if (error.code == Code::Unavailable) return error;
  if (is_quota(error.message)) {
    error.code = Code::Forbidden;
    error.reason = kQuota;
  } else if (error.reason == kubernetes::reasons::kInvalid || error.code == Code::InvalidRequest) {
    error.code = Code::InvalidRequest;
    error.reason = api::reason::kInvalidParameter;
  } else {
    error.code = Code::Internal;
    error.reason = kApiError;
  }
  return error;
}

Failure not_found(const std::string& id) { return fail(Code::NotFound, "sandbox " + id + " is not in the cluster"); }

}  // namespace

KubernetesLifecycle::KubernetesLifecycle(net::any_io_executor executor, kubernetes::Client& client,
                                         const KubernetesOptions& options, ClusterSandboxes& sandboxes,
                                         KubernetesSnapshots* snapshots)
    : client_(client),
      options_(options),
      sandboxes_(sandboxes),
      snapshots_(snapshots),
      execd_(options.connector(executor)) {}

kubernetes::Ref KubernetesLifecycle::ref(const std::string& id) const {
  return {workload_resource(options_), sandboxes_.key_of(id)};
}

Result<void> KubernetesLifecycle::check(const api::CreateSandbox& create) const {
  if (create.lifecycle.idle) return api::invalid_parameter("/lifecycle/idlePolicy", kNoIdlePolicy);
  return check_for_cluster(create, options_);
}

// ---- create

net::awaitable<Result<void>> KubernetesLifecycle::make_claims(const SandboxSpec& spec,
                                                              std::vector<std::string>& owned) {
  for (Claim& claim : claims(*spec.create, options_)) {
    const std::string name = kubernetes::key_of(claim.object).name;
    if (!claim.create) continue;  // a claim that is missing keeps the pod waiting, which its trouble then tells
    auto made = co_await client_.create(resources::kClaims, options_.ns, std::move(claim.object));
    if (made && claim.owned) owned.push_back(name);
    if (made || kubernetes::already_exists(made.error())) continue;
    co_return Failure(refusal(made.error(), "create the claim " + name));
  }
  co_return Result<void>();
}

net::awaitable<Result<void>> KubernetesLifecycle::check_pool(std::string name) {
  if (name == kAnyPool) co_return Result<void>();
  const auto pool = co_await client_.get({kPools, {options_.ns, name}});
  if (pool) co_return Result<void>();
  if (!kubernetes::is_not_found(pool.error())) co_return Failure(refusal(pool.error(), "find pool " + name));
  co_return api::refuse(Code::NotFound, kNoPool, "pool " + name + " does not exist");
}

net::awaitable<Result<json::object>> KubernetesLifecycle::plan(const SandboxSpec& spec) {
  const api::CreateSandbox& create = *spec.create;
  if (const std::string pool = create.pool_ref(); !pool.empty()) {
    if (auto there = co_await check_pool(pool); !there) co_return Failure(there.error());
    co_return pooled_sandbox(spec, options_);
  }
  std::string image = create.image ? create.image->uri : "";
  if (!create.snapshot_id.empty() && snapshots_ != nullptr) {
    auto saved = co_await snapshots_->image_of(create.snapshot_id);
    if (!saved) co_return Failure(saved.error());
    image = std::move(*saved);
  }
  if (image.empty()) co_return fail(Code::Unsupported, "a sandbox in a cluster needs an image");
  co_return options_.provider == WorkloadProvider::AgentSandbox ? agent_sandbox(spec, options_, image)
                                                                : batch_sandbox(spec, options_, image);
}

net::awaitable<Result<json::object>> KubernetesLifecycle::make_workload(const SandboxSpec& spec, Creating& creating) {
  auto manifest = co_await plan(spec);
  if (!manifest) co_return Failure(manifest.error());
  for (;;) {
    const auto seen = creating.changes();
    auto made = co_await client_.create(workload_resource(options_), options_.ns, *manifest);
    if (made) co_return made;
    if (!kubernetes::already_exists(made.error())) co_return Failure(refusal(made.error(), "create the sandbox"));
    const auto there = co_await client_.get(ref(spec.id));
    if (!there && !kubernetes::is_not_found(there.error())) co_return Failure(there.error());
    // Another server, or an earlier try, has made it.
    if (there && !kubernetes::is_deleting(*there)) co_return fail(Code::Conflict, "sandbox " + spec.id + " exists");
    // One of the same name is on its way out; the watch tells when it is gone.
    if (there && !co_await creating.wait_change(seen)) co_return fail(Code::Cancelled, "cancelled");
    if (creating.given_up()) co_return fail(Code::Cancelled, "the sandbox is not wanted any more");
  }
}

// The secret and the claims go with the object.
net::awaitable<Result<void>> KubernetesLifecycle::own(const json::object& workload, const SandboxSpec& spec,
                                                      const std::vector<std::string>& claims) {
  const json::object patch{
      {"metadata", {{"ownerReferences", json::array{kubernetes::owner_reference(workload, false)}}}}};
  std::vector<kubernetes::Ref> owned;
  if (spec.create->image && spec.create->image->auth) {
    owned.push_back({resources::kSecrets, {options_.ns, pull_secret_name(spec.id)}});
  }
  for (const std::string& claim : claims) owned.push_back({resources::kClaims, {options_.ns, claim}});
  for (kubernetes::Ref& each : owned) {
    const auto patched = co_await client_.patch(each, kubernetes::PatchType::Merge, patch);
    if (!patched) co_return Failure(refusal(patched.error(), "own " + each.key.name));
  }
  co_return Result<void>();
}

net::awaitable<Result<Instance>> KubernetesLifecycle::create(SandboxSpec spec) {
  Creating creating(sandboxes_, spec.id);
  std::vector<std::string> owned;
  if (auto made = co_await make_claims(spec, owned); !made) co_return Failure(made.error());
  if (auto secret = pull_secret(spec)) {
    // Before the object: its pod pulls at once.
    const auto made = co_await client_.create(resources::kSecrets, options_.ns, std::move(*secret));
    if (!made && !kubernetes::already_exists(made.error())) {
      co_return Failure(refusal(made.error(), "create the image's secret"));
    }
  }
  auto workload = co_await make_workload(spec, creating);
  if (!workload) {
    if (workload.error().code != Code::Conflict) co_await clean_up(spec.id);
    co_return Failure(workload.error());
  }
  sandboxes_.observe(*workload);
  auto done = co_await own(*workload, spec, owned);
  auto instance = done ? co_await wait_ready(spec, creating) : Result<Instance>(Failure(done.error()));
  if (!instance) co_await clean_up(spec.id);
  co_return instance;
}

net::awaitable<Result<Instance>> KubernetesLifecycle::wait_ready(const SandboxSpec& spec, Creating& creating) {
  const auto deadline = client_.clock().steady_now() + options_.create_timeout;
  const auto pool_deadline = client_.clock().steady_now() + std::min(options_.pool_timeout, options_.create_timeout);
  Backoff pause(kFirstAsk, kLastAsk);
  for (;;) {
    const auto seen = creating.changes();
    const kubernetes::ObjectPtr workload = sandboxes_.workload(spec.id);
    if (creating.given_up() || !workload || kubernetes::is_deleting(*workload)) {
      co_return fail(Code::Cancelled, "the sandbox was removed while it was being created");
    }
    const kubernetes::ObjectPtr pod = sandboxes_.pod(spec.id);
    Instance instance = to_instance(*workload, pod.get());
    const auto trouble = pod ? trouble_of(*pod) : std::nullopt;
    if (instance.state == InstanceState::Ended || (trouble && trouble->final)) {
      co_return api::refuse(Code::Internal, kPodFailed,
                            "the sandbox did not start: " + (trouble ? trouble->message : instance.message));
    }
    const bool waits_for_pool = !spec.create->pool_ref().empty() && pooled_pod(*workload).empty();
    const auto left = (waits_for_pool ? pool_deadline : deadline) - client_.clock().steady_now();
    if (left <= left.zero() && waits_for_pool) {
      co_return api::refuse(Code::Exhausted, kPoolEmpty,
                            "pool " + spec.create->pool_ref() + " gave no pod within " +
                                std::to_string(options_.pool_timeout.count()) + " s: " + instance.message);
    }
    if (left <= left.zero()) co_return Failure(co_await late(spec.id));
    const bool runs = instance.state == InstanceState::Running || (pod && container_runs(*pod));
    if (runs && !instance.address.empty()) {
      if (co_await ask_execd(instance)) {
        instance.state = InstanceState::Running;
        co_return instance;
      }
      if (!co_await sleep_for(std::min<std::chrono::nanoseconds>(left, pause.next()))) {
        co_return fail(Code::Cancelled, "cancelled");
      }
      continue;
    }
    co_await (creating.wait_change(seen) || client_.sleep(left));
    if ((co_await net::this_coro::cancellation_state).cancelled() != net::cancellation_type::none) {
      co_return fail(Code::Cancelled, "cancelled");
    }
  }
}

net::awaitable<bool> KubernetesLifecycle::ask_execd(const Instance& instance) {
  http::ClientRequest request;
  request.target = "/ping";
  request.headers.set("X-EXECD-ACCESS-TOKEN", instance.execd_token);
  request.headers.set("Connection", "close");
  request.timeouts.connect = request.timeouts.head = kAskLimit;
  const auto response = co_await execd_.send(instance.ports->route(kExecdPort).origin, std::move(request));
  co_return response && response->status == 200;
}

net::awaitable<Error> KubernetesLifecycle::late(std::string id) {
  const std::string limit = std::to_string(options_.create_timeout.count()) + " s";
  const kubernetes::ObjectPtr workload = sandboxes_.workload(id);
  std::string why = workload ? to_instance(*workload, sandboxes_.pod(id).get()).message : "";
  std::string_view reason = kTooLate;
  Code code = Code::Timeout;
  if (!sandboxes_.pod(id)) {
    // Without a pod only the controller's events tell why.
    const auto events = co_await client_.list(resources::kEvents, options_.ns,
                                              {.fields = "involvedObject.name=" + id + ",type=Warning"});
    if (events && !events->items.empty()) why = kubernetes::text(*events->items.back(), {"message"});
  }
  if (is_quota(why)) {
    reason = kQuota;
    code = Code::Forbidden;
  }
  Error out(code, "the sandbox did not run within " + limit + (why.empty() ? "" : ": " + why));
  out.reason = reason;
  co_return out;
}

// A create that fails leaves nothing behind.
net::awaitable<void> KubernetesLifecycle::clean_up(std::string id) {
  const kubernetes::Ref secret{resources::kSecrets, {options_.ns, pull_secret_name(id)}};
  for (const kubernetes::Ref& each : {ref(id), secret}) {
    const auto removed = co_await client_.remove(each, {.grace_seconds = 0});
    if (removed || kubernetes::is_not_found(removed.error())) {
      if (each.resource == workload_resource(options_)) sandboxes_.note_removed(id);
      continue;
    }
    log_warn("an object of a failed create stays", {{"id", id}, {"error", removed.error().message}});
  }
}

// ---- the rest

net::awaitable<Result<Instance>> KubernetesLifecycle::inspect(std::string id) {
  kubernetes::ObjectPtr workload = sandboxes_.workload(id);
  if (!workload) {
    auto got = co_await client_.get(ref(id));
    if (!got && kubernetes::is_not_found(got.error())) co_return not_found(id);
    if (!got) co_return Failure(got.error());
    if (sandbox_id(*got) != id) co_return not_found(id);
    workload = std::make_shared<const json::object>(std::move(*got));
  }
  co_return sandboxes_.describe(*workload);
}

net::awaitable<Result<std::vector<Instance>>> KubernetesLifecycle::list() {
  if (!sandboxes_.synced()) co_return fail(Code::Unavailable, "the cluster's sandboxes are not known yet");
  co_return sandboxes_.all();
}

net::awaitable<void> KubernetesLifecycle::watch(Observer& observer) {
  if (snapshots_ == nullptr) co_return co_await sandboxes_.run(observer);
  co_await (sandboxes_.run(observer) && snapshots_->run(observer));
}

net::awaitable<Result<void>> KubernetesLifecycle::pause(std::string id) { return set_paused(std::move(id), true); }
net::awaitable<Result<void>> KubernetesLifecycle::resume(std::string id) { return set_paused(std::move(id), false); }

// Returns when the request is written; the controller carries it out, and the watch tells its end.
net::awaitable<Result<void>> KubernetesLifecycle::set_paused(std::string id, bool paused) {
  if (options_.provider == WorkloadProvider::AgentSandbox) {
    co_return co_await change(id, {{"spec", {{"operatingMode", paused ? "Suspended" : "Running"}}}});
  }
  const kubernetes::ObjectPtr workload = sandboxes_.workload(id);
  if (!workload) co_return not_found(id);
  const json::value* wish = kubernetes::find(*workload, {"spec", "pause"});
  if (wish != nullptr && *wish == paused) {
    // An earlier wish that has failed: only a change makes the controller try again.
    if (auto cleared = co_await change(id, {{"spec", {{"pause", nullptr}}}}); !cleared) co_return cleared;
  }
  co_return co_await change(id, {{"spec", {{"pause", paused}}}});
}

net::awaitable<Result<void>> KubernetesLifecycle::change(std::string id, json::object patch) {
  auto patched = co_await client_.patch(ref(id), kubernetes::PatchType::Merge, std::move(patch));
  if (!patched && kubernetes::is_not_found(patched.error())) co_return not_found(id);
  if (!patched) co_return Failure(patched.error());
  sandboxes_.observe(std::move(*patched));
  co_return Result<void>();
}

net::awaitable<Result<void>> KubernetesLifecycle::remove(std::string id) {
  if (!co_await sandboxes_.give_up(id)) co_return fail(Code::Cancelled, "the server is ending");
  const auto removed = co_await client_.remove(ref(id), {.grace_seconds = 0});
  if (!removed && !kubernetes::is_not_found(removed.error())) co_return removed;
  sandboxes_.note_removed(id);
  co_return Result<void>();
}

net::awaitable<Result<void>> KubernetesLifecycle::set_deadline(std::string id, Timestamp until) {
  std::string text = format_timestamp(until);
  text.replace(text.size() - 1, 1, "+00:00");
  const bool agent = options_.provider == WorkloadProvider::AgentSandbox;
  return change(std::move(id), {{"spec", {{agent ? "shutdownTime" : "expireTime", std::move(text)}}}});
}

net::awaitable<Result<void>> KubernetesLifecycle::patch_metadata(std::string id, api::MetadataPatch patch) {
  json::object labels;
  for (const auto& [name, value] : patch) labels[name] = value ? json::value(*value) : json::value();
  return change(std::move(id), {{"metadata", {{"labels", std::move(labels)}}}});
}

net::awaitable<Result<ResourceUse>> KubernetesLifecycle::stats(std::string) {
  co_return fail(Code::Unsupported, "the kubernetes backend does not measure sandboxes");
}

}  // namespace osb::runtime
