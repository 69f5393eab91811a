#include "runtime/kubernetes/cluster_sandboxes.h"

#include <boost/asio/this_coro.hpp>

#include "async/race.h"
#include "runtime/kubernetes/manifest.h"
#include "runtime/kubernetes/workload.h"
#include "runtime/labels.h"

namespace osb::runtime {

using namespace race;
using kubernetes::ObjectPtr;

namespace {

constexpr std::string_view kByPod = "sandbox";
// A server that is away is looked for at least so often.
constexpr std::chrono::milliseconds kLongestPause(5000);

// Of a pod only its status and little more is needed; a thousand whole ones would be half of the server's memory.
void trim_pod(kubernetes::json::object& pod) {
  kubernetes::json::object kept;
  for (const std::string_view name : {"nodeName", "restartPolicy"}) {
    const std::string value(kubernetes::text(pod, {"spec", name}));
    if (!value.empty()) kept[name] = value;
  }
  pod["spec"] = std::move(kept);
  kubernetes::make_object(pod, {"metadata"}).erase("annotations");
}

std::vector<std::string> index_of(const kubernetes::json::object& object) { return {sandbox_id(object)}; }

}  // namespace

kubernetes::Informer::Options ClusterSandboxes::informer(const kubernetes::Resource& resource) {
  kubernetes::Informer::Options out{.resource = resource, .ns = options_.ns, .labels = std::string(label::kId)};
  out.watch_time = options_.watch_time;
  out.last_pause = kLongestPause;
  if (resource == kubernetes::resources::kPods) out.trim = trim_pod;
  out.on_problem = [this](const std::string&) { problem_changed_.notify_all(); };
  return out;
}

ClusterSandboxes::ClusterSandboxes(net::any_io_executor executor, kubernetes::Client& client,
                                   const KubernetesOptions& options, TaskGroup& tasks)
    : executor_(executor),
      options_(options),
      tasks_(tasks),
      looked_(executor),
      problem_changed_(executor),
      create_over_(executor),
      workloads_(executor, client, informer(workload_resource(options))),
      pods_(executor, client, informer(kubernetes::resources::kPods)) {
  pods_.cache().add_index(std::string(kByPod), index_of);
  workloads_.cache().on_change([this](const ObjectPtr& before, const ObjectPtr& after) { on_workload(before, after); });
  pods_.cache().on_change([this](const ObjectPtr& before, const ObjectPtr& after) { on_pod(before, after); });
}

kubernetes::Key ClusterSandboxes::key_of(const std::string& id) const {
  return {options_.ns, options_.provider == WorkloadProvider::AgentSandbox ? agent_sandbox_name(id) : id};
}

ObjectPtr ClusterSandboxes::workload(const std::string& id) const {
  ObjectPtr found = workloads_.cache().get(key_of(id));
  return found && sandbox_id(*found) == id ? found : nullptr;
}

ObjectPtr ClusterSandboxes::pod(const std::string& id) const {
  const auto pods = pods_.cache().find(kByPod, id);
  // A pod that replaces one which is on its way out is the one that counts.
  for (const ObjectPtr& each : pods) {
    if (!kubernetes::is_deleting(*each)) return each;
  }
  return pods.empty() ? nullptr : pods.front();
}

Instance ClusterSandboxes::describe(const kubernetes::json::object& workload) const {
  const std::string id = sandbox_id(workload);
  const ObjectPtr its_pod = pod(id);
  Instance out = to_instance(workload, its_pod.get());
  if (removed_.contains(std::string(kubernetes::uid_of(workload)))) out.state = InstanceState::Removing;
  if (creating_.contains(id) && out.state != InstanceState::Removing) {
    if (out.state != InstanceState::Creating) out.message = "waiting for execd";
    out.state = InstanceState::Creating;
  }
  return out;
}

std::vector<Instance> ClusterSandboxes::all() const {
  std::vector<Instance> out;
  for (const ObjectPtr& each : workloads_.cache().list()) {
    if (!sandbox_id(*each).empty()) out.push_back(describe(*each));
  }
  return out;
}

void ClusterSandboxes::announce(const std::string& id) {
  if (const auto creating = creating_.find(id); creating != creating_.end()) creating->second->note();
  if (observer_ == nullptr) return;
  if (const ObjectPtr known = workload(id)) observer_->on_change(describe(*known));
}

void ClusterSandboxes::on_workload(const ObjectPtr& before, const ObjectPtr& after) {
  const std::string id = sandbox_id(after ? *after : *before);
  // Objects of other names that carry our label are not ours.
  if (id.empty() || kubernetes::key_of(after ? *after : *before).name != key_of(id).name) return;
  announce(id);
  if (after) return;
  removed_.erase(std::string(kubernetes::uid_of(*before)));
  if (observer_ != nullptr) observer_->on_removed(id);
}

void ClusterSandboxes::on_pod(const ObjectPtr& before, const ObjectPtr& after) {
  const std::string id = sandbox_id(after ? *after : *before);
  if (!id.empty()) announce(id);
}

std::string ClusterSandboxes::problem() const {
  return workloads_.problem().empty() ? pods_.problem() : workloads_.problem();
}

net::awaitable<void> ClusterSandboxes::run(Observer& observer) {
  if (!std::exchange(started_, true)) {
    tasks_.spawn("watch sandboxes", workloads_.run());
    tasks_.spawn("watch pods", pods_.run());
  }
  const struct Gone {
    ClusterSandboxes& all;
    ~Gone() { all.observer_ = nullptr; }
  } gone{*this};
  bool told = false;
  const auto wait_synced = [this]() -> net::awaitable<bool> {
    co_return co_await workloads_.wait_synced() && co_await pods_.wait_synced();
  };
  for (;;) {
    if ((co_await net::this_coro::cancellation_state).cancelled() != net::cancellation_type::none) co_return;
    const std::string trouble = problem();
    if (trouble.empty() && synced() && !told) {
      told = true;
      observer_ = &observer;
      observer.on_all(all());
    } else if (!trouble.empty()) {
      told = false;
      observer_ = nullptr;
      observer.on_lost(Error(Code::Unavailable, "the API server does not answer: " + trouble));
    }
    if (!synced()) {
      co_await (wait_synced() || problem_changed_.wait() || looked_.wait());
    } else {
      co_await (problem_changed_.wait() || looked_.wait());
    }
  }
}

void ClusterSandboxes::note_removed(const std::string& id) {
  if (const ObjectPtr known = workload(id)) removed_.insert(std::string(kubernetes::uid_of(*known)));
}

// ---- creates

ClusterSandboxes::Creating::Creating(ClusterSandboxes& all, std::string id)
    : all_(all), id_(std::move(id)), changed_(all.executor_) {
  all_.creating_[id_] = this;
}

ClusterSandboxes::Creating::~Creating() {
  all_.creating_.erase(id_);
  all_.create_over_.notify_all();
  all_.announce(id_);  // the state that was held back
}

void ClusterSandboxes::Creating::note() {
  ++changes_;
  changed_.notify_all();
}

net::awaitable<bool> ClusterSandboxes::Creating::wait_change(std::uint64_t seen) {
  return changed_.wait_until([this, seen] { return changes_ != seen; });
}

net::awaitable<bool> ClusterSandboxes::give_up(std::string id) {
  const auto creating = creating_.find(id);
  if (creating == creating_.end()) co_return true;
  creating->second->given_up_ = true;
  creating->second->note();
  co_return co_await create_over_.wait_until([this, id] { return !creating_.contains(id); });
}

}  // namespace osb::runtime
