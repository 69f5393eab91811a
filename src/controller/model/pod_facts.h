#pragma once

#include <cstdint>
#include <string>

#include "kubernetes/object.h"

namespace osb::controller {

namespace json = boost::json;
using kubernetes::ObjectPtr;

// The fields of a pod that the controllers use.
struct PodFacts {
  ObjectPtr object;
  std::string name, uid;
  std::string created;      // RFC 3339
  std::string ready_since;  // of the Ready condition
  std::string phase;        // Pending, Running, Succeeded, Failed, Unknown
  std::string ip, node;
  std::string claim;          // UID of the sandbox that has it
  std::string revision;       // of its pool's template
  std::string failure;        // why it cannot run: ImagePullBackOff, ...; empty: it can
  std::string unschedulable;  // the scheduler's reason; empty: none
  std::int64_t restarts = 0;
  int index = -1;  // of a replica
  bool deleting = false;
  bool ready = false;  // runs, is Ready, and is not being deleted
  bool evict = false;

  bool finished() const { return phase == "Succeeded" || phase == "Failed"; }
  static PodFacts read(ObjectPtr pod);
};

// Takes away what PodFacts does not read, so that a cache of many pods stays small.
void trim_pod(json::object& pod);

}  // namespace osb::controller
