#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "controller/model/pod_list.h"
#include "kubernetes/object.h"

namespace osb::controller {

namespace json = boost::json;
using kubernetes::Key;
using kubernetes::ObjectPtr;

// A BatchSandbox as its controllers read it. Values that make no sense are listed in `problems` and replaced by
// harmless ones: such an object stays where it is and says so, and others do not notice.
struct BatchSandbox {
  ObjectPtr object;
  Key key;
  std::string uid;
  std::string created;  // RFC 3339, whole seconds
  std::int64_t generation = 0;
  bool deleting = false;

  int replicas = 1;
  std::string pool;                            // empty: pods from the template
  const json::object* pod_template = nullptr;  // in `object`
  std::optional<Timestamp> expires;
  std::optional<bool> pause;
  bool has_tasks = false;
  bool releases_finished = false;  // pods of finished tasks go back to the pool

  PodList allocated, release, released;
  std::vector<std::string> problems;

  static BatchSandbox read(ObjectPtr object);

  bool pooled() const { return !pool.empty(); }
  // Pods that the pool has given and not got back.
  std::vector<std::string> held() const { return pods_without(allocated.pods, released.pods); }
  // The pool of the held pods.
  const std::string& holding_pool() const { return allocated.pool.empty() ? pool : allocated.pool; }
  std::string_view phase() const { return kubernetes::text(*object, {"status", "phase"}); }
};

// The most replicas that one object may ask for: a typing error must not fill a cluster.
inline constexpr int kMostReplicas = 10'000;

}  // namespace osb::controller
