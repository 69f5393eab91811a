#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "controller/model/batch_sandbox.h"
#include "controller/model/conditions.h"
#include "controller/model/pod_facts.h"
#include "controller/pool/pool_reconciler.h"

namespace osb::controller {

// How many tasks are in which state.
struct TaskCounts {
  int running = 0, succeeded = 0, failed = 0, pending = 0, unknown = 0;
};

// The inputs of a sandbox's status, besides its object.
struct SandboxView {
  std::vector<PodFacts> pods = {};  // in the order of replicas
  int lost = 0;                     // pods of the pool that it holds and that are gone
  TaskCounts tasks = {};
  const PoolWaits::Reason* wait = nullptr;  // why it waits for its pool
  std::optional<Error> create_failed = {};  // of the last attempt to make a pod
  std::string now = {};                     // RFC 3339, whole seconds
};

// The status that the object should have.
json::object next_status(const BatchSandbox& sandbox, const SandboxView& view);

// Whether the object is new and has nothing to tell yet: its first status is not worth a write.
bool worth_writing(const BatchSandbox& sandbox, const json::object& status);

// The annotation `endpoints`: addresses in the order of replicas.
std::string endpoints_of(const std::vector<PodFacts>& pods);

}  // namespace osb::controller
