#include "controller/cluster.h"

#include <utility>

#include "async/race.h"
#include "controller/model/batch_sandbox.h"
#include "controller/names.h"
#include "kubernetes/api_status.h"

namespace osb::controller {
namespace {

constexpr int kTries = 6;

std::string selector_of(Kind kind) {
  switch (kind) {
    case Kind::PoolPods:
      return std::string(keys::kPoolName);
    case Kind::ReplicaPods:
      return std::string(keys::kReplicaOf);
    case Kind::Jobs:
      return std::string(keys::kSnapshotName);
    default:
      return {};
  }
}

bool is_pod(Kind kind) { return kind == Kind::PoolPods || kind == Kind::ReplicaPods; }

std::vector<std::string> pools_of(const json::object& object) {
  // Only the two fields: an index is computed for every event.
  std::vector<std::string> out;
  const std::string ns(kubernetes::text(object, {"metadata", "namespace"}));
  if (const auto wanted = kubernetes::text(object, {"spec", "poolRef"}); !wanted.empty()) {
    out.push_back(ns + "/" + std::string(wanted));
  }
  const auto record = kubernetes::annotation(object, keys::kAllocated);
  if (record.empty()) return out;
  if (const auto list = PodList::parse(record); list && !list->pool.empty()) {
    std::string held = ns + "/" + list->pool;
    if (out.empty() || out.front() != held) out.push_back(std::move(held));
  }
  return out;
}

std::vector<std::string> held_pods(const json::object& object) {
  std::vector<std::string> out;
  const auto record = kubernetes::annotation(object, keys::kAllocated);
  if (record.empty()) return out;
  const auto list = PodList::parse(record);
  if (!list) return out;
  const std::string ns(kubernetes::text(object, {"metadata", "namespace"}));
  for (const std::string& pod : list->pods) out.push_back(ns + "/" + pod);
  return out;
}

}  // namespace

const kubernetes::Resource& resource_of(Kind kind) {
  switch (kind) {
    case Kind::Sandboxes:
      return kBatchSandboxes;
    case Kind::Pools:
      return kPools;
    case Kind::Snapshots:
      return kSnapshots;
    case Kind::Jobs:
      return kubernetes::resources::kJobs;
    default:
      return kubernetes::resources::kPods;
  }
}

Cluster::Cluster(net::any_io_executor executor, kubernetes::Client& client, kubernetes::EventRecorder& events,
                 std::string ns)
    : client_(client), events_(events) {
  for (std::size_t i = 0; i < kKinds; ++i) {
    const Kind kind = static_cast<Kind>(i);
    kubernetes::Informer::Options options{.resource = resource_of(kind), .ns = ns, .labels = selector_of(kind)};
    if (is_pod(kind)) options.trim = trim_pod;
    informers_[i] = std::make_unique<kubernetes::Informer>(executor, client, std::move(options));
  }
  add_indices();
}

void Cluster::add_indices() {
  for (const Kind kind : {Kind::PoolPods, Kind::ReplicaPods}) {
    cache(kind).add_index(std::string(kByOwner), [](const json::object& pod) {
      return std::vector<std::string>{std::string(kubernetes::controller_uid(pod))};
    });
    cache(kind).on_change([this](const ObjectPtr& before, const ObjectPtr& after) {
      if (!after) removed_.erase(std::string(kubernetes::uid_of(*before)));
    });
  }
  cache(Kind::Sandboxes).add_index(std::string(kByPool), pools_of);
  cache(Kind::Sandboxes).add_index(std::string(kByPod), held_pods);
  cache(Kind::Snapshots).add_index(std::string(kBySandbox), [](const json::object& snapshot) {
    return std::vector<std::string>{std::string(kubernetes::text(snapshot, {"metadata", "namespace"})) + "/" +
                                    std::string(kubernetes::text(snapshot, {"spec", "sandboxName"}))};
  });
}

PodFacts Cluster::facts(ObjectPtr pod) const {
  PodFacts out = PodFacts::read(std::move(pod));
  if (removed_.contains(out.uid)) {
    out.deleting = true;
    out.ready = false;
  }
  return out;
}

std::vector<PodFacts> Cluster::pods_of(Kind kind, std::string_view owner_uid) {
  std::vector<PodFacts> out;
  for (ObjectPtr& each : cache(kind).find(kByOwner, owner_uid)) out.push_back(facts(std::move(each)));
  return out;
}

net::awaitable<void> Cluster::run() {
  using namespace race;
  const auto two = [this](std::size_t a) { return informers_[a]->run() && informers_[a + 1]->run(); };
  co_await (two(0) && two(2) && two(4));
}

net::awaitable<bool> Cluster::wait_synced() {
  for (const auto& each : informers_) {
    if (!co_await each->wait_synced()) co_return false;
  }
  co_return true;
}

bool Cluster::synced() const {
  for (const auto& each : informers_) {
    if (!each->synced()) return false;
  }
  return true;
}

net::awaitable<Result<json::object>> Cluster::read(Kind kind, Key key) {
  co_return co_await client_.get({resource_of(kind), std::move(key)});
}

net::awaitable<Result<json::object>> Cluster::create(Kind kind, std::string ns, json::object object) {
  ++writes_;
  auto made = co_await client_.create(resource_of(kind), std::move(ns), std::move(object));
  if (made) informer(kind).observe(*made);
  co_return made;
}

net::awaitable<Result<json::object>> Cluster::patch(Kind kind, Key key, json::object patch, std::string subresource) {
  ++writes_;
  auto made = co_await client_.patch({resource_of(kind), std::move(key), std::move(subresource)},
                                     kubernetes::PatchType::Merge, std::move(patch));
  if (made) informer(kind).observe(*made);
  co_return made;
}

net::awaitable<Result<void>> Cluster::remove(Kind kind, ObjectPtr object, bool only_unchanged) {
  ++writes_;
  const std::string uid(kubernetes::uid_of(*object));
  kubernetes::DeleteOptions options;
  options.uid = uid;
  if (only_unchanged) options.version = kubernetes::version_of(*object);
  auto done = co_await client_.remove({resource_of(kind), kubernetes::key_of(*object)}, options);
  // A conflict: another object has the name, or it has changed.
  if (!done && kubernetes::is_conflict(done.error())) co_return Result<void>();
  if (!done && !kubernetes::is_not_found(done.error())) co_return done;
  const ObjectPtr known = get(kind, kubernetes::key_of(*object));
  if (is_pod(kind) && known && kubernetes::uid_of(*known) == uid) removed_.insert(uid);
  co_return Result<void>();
}

net::awaitable<Result<bool>> Cluster::change(Kind kind, ObjectPtr object, Change change) {
  const std::string uid(kubernetes::uid_of(*object));
  const Key key = kubernetes::key_of(*object);
  for (int tries = 0;; ++tries) {
    auto wanted = change(*object);
    if (!wanted) co_return false;
    kubernetes::make_object(*wanted, {"metadata"})["resourceVersion"] = kubernetes::version_of(*object);
    const auto done = co_await patch(kind, key, std::move(*wanted));
    if (done) co_return true;
    if (kubernetes::is_not_found(done.error())) co_return false;
    if (!kubernetes::is_conflict(done.error()) || tries == kTries) co_return Failure(done.error());
    auto fresh = co_await read(kind, key);
    if (!fresh && kubernetes::is_not_found(fresh.error())) co_return false;
    if (!fresh) co_return Failure(fresh.error());
    if (kubernetes::uid_of(*fresh) != uid) co_return false;
    object = std::make_shared<const json::object>(std::move(*fresh));
  }
}

void Cluster::event(const json::object& about, bool warning, std::string reason, std::string message) {
  using Type = kubernetes::EventRecorder::Type;
  events_.record(about, warning ? Type::Warning : Type::Normal, std::move(reason), std::move(message));
}

}  // namespace osb::controller
