#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "async/net.h"
#include "base/error.h"
#include "controller/model/pod_facts.h"
#include "kubernetes/client.h"
#include "kubernetes/event_recorder.h"
#include "kubernetes/informer.h"

namespace osb::controller {

namespace json = boost::json;
using kubernetes::Key;
using kubernetes::ObjectPtr;

// Types of objects that the controller follows. Pods are followed by their labels, so that foreign pods of the cluster
// cost nothing.
enum class Kind { Sandboxes, Pools, Snapshots, PoolPods, ReplicaPods, Jobs };
inline constexpr std::size_t kKinds = 6;

// Names of indices.
inline constexpr std::string_view kByOwner = "owner";      // pods: UID of the owner
inline constexpr std::string_view kByPool = "pool";        // sandboxes: "ns/pool" that they want or hold pods of
inline constexpr std::string_view kByPod = "pod";          // sandboxes: "ns/pod" that they hold
inline constexpr std::string_view kBySandbox = "sandbox";  // snapshots: "ns/sandbox"

// The cluster as the controller sees it, and its writes. A write is in the caches when its call returns, so that the
// next look at an object sees it.
class Cluster {
 public:
  // `client` and `events` outlive it. `ns` empty: all namespaces.
  Cluster(net::any_io_executor executor, kubernetes::Client& client, kubernetes::EventRecorder& events, std::string ns);

  kubernetes::ObjectCache& cache(Kind kind) { return informer(kind).cache(); }
  ObjectPtr get(Kind kind, const Key& key) { return cache(kind).get(key); }
  // Pods whose controller has this UID; a pod that was deleted here counts as being deleted before its event comes.
  std::vector<PodFacts> pods_of(Kind kind, std::string_view owner_uid);
  PodFacts facts(ObjectPtr pod) const;

  // Follows all types until it is cancelled. Once.
  net::awaitable<void> run();
  net::awaitable<bool> wait_synced();
  bool synced() const;

  // The object as the API server has it now, whole.
  net::awaitable<Result<json::object>> read(Kind kind, Key key);
  net::awaitable<Result<json::object>> create(Kind kind, std::string ns, json::object object);
  net::awaitable<Result<json::object>> patch(Kind kind, Key key, json::object patch, std::string subresource = {});
  // An object that is gone already is no error; one of the same name with another UID is not touched.
  // `only_unchanged`: neither is one that has changed since; an event tells.
  net::awaitable<Result<void>> remove(Kind kind, ObjectPtr object, bool only_unchanged = false);
  // Changes an object that others change too: `change` makes a merge patch from the newest version, or nothing when
  // there is nothing to do. A conflict reads the object again. False: nothing to do, or the object is gone.
  using Change = std::function<std::optional<json::object>(const json::object&)>;
  net::awaitable<Result<bool>> change(Kind kind, ObjectPtr object, Change change);

  void event(const json::object& about, bool warning, std::string reason, std::string message);
  kubernetes::Client& client() { return client_; }
  const Clock& clock() const { return client_.clock(); }
  std::uint64_t writes() const { return writes_; }

 private:
  kubernetes::Informer& informer(Kind kind) { return *informers_[static_cast<std::size_t>(kind)]; }
  void add_indices();

  kubernetes::Client& client_;
  kubernetes::EventRecorder& events_;
  std::array<std::unique_ptr<kubernetes::Informer>, kKinds> informers_;
  std::set<std::string, std::less<>> removed_;  // UIDs of pods that were deleted here and are not gone yet
  std::uint64_t writes_ = 0;
};

const kubernetes::Resource& resource_of(Kind kind);

}  // namespace osb::controller
