#pragma once

#include <memory>
#include <optional>
#include <string>

#include <boost/json/object.hpp>

#include "runtime/instance.h"

namespace osb::runtime {

// The id of the sandbox that a workload or a pod belongs to; "" when it is none of ours.
std::string sandbox_id(const boost::json::object& object);

// The address of the sandbox's pod; "" while it has none.
std::string address_of(const boost::json::object& workload, const boost::json::object* pod);

// The name of the pod that a pool has given to the sandbox; "": none.
std::string pooled_pod(const boost::json::object& workload);

// Whether the sandbox's container runs, by the pod.
bool container_runs(const boost::json::object& pod);

// The reason why a pod does not run.
struct PodTrouble {
  std::string reason;   // the cluster's word: "ImagePullBackOff", "Unschedulable"
  std::string message;  // with the cluster's own sentence
  bool final = false;   // it does not heal by waiting
};
std::optional<PodTrouble> trouble_of(const boost::json::object& pod);

// The sandbox as its objects say it is: a BatchSandbox, or a Sandbox of agent-sandbox. `pod` may be null: the pods of
// pools are not followed.
Instance to_instance(const boost::json::object& workload, const boost::json::object* pod);

// Ports of a pod, at its address.
class PodPorts final : public PortMap {
 public:
  explicit PodPorts(std::string address) : address_(std::move(address)) {}
  Route route(std::uint16_t port) const override;
  ClientRoute client_route(std::uint16_t port) const override;

 private:
  std::string address_;
};

}  // namespace osb::runtime
