#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include <boost/json/object.hpp>

#include "async/net.h"
#include "base/error.h"
#include "config/server_config.h"
#include "http/client.h"
#include "kubernetes/client.h"
#include "kubernetes/cluster_config.h"

namespace osb::runtime {

// The kind of object that a sandbox is.
enum class WorkloadProvider { BatchSandbox, AgentSandbox };

// How sandboxes are made in a cluster.
struct KubernetesOptions {
  kubernetes::ClusterConfig cluster;
  kubernetes::ClientOptions client;
  std::string ns;  // of the sandboxes
  WorkloadProvider provider = WorkloadProvider::BatchSandbox;
  boost::json::object workload;            // the operator's object of that kind, below the generated one; empty: none
  std::string shutdown_policy = "Delete";  // of an agent-sandbox whose deadline has passed
  config::EgressSection egress;            // sidecars of sandboxes with a network policy
  bool signed_routes = false;              // the gateway has keys
  bool own_network_stack = false;          // the runtime class has one, which a sidecar cannot govern
  std::string execd_image;                 // holds /execd and /bootstrap.sh
  bool execd_run_as_init = false;
  std::string image_pull_policy = "IfNotPresent";
  std::string runtime_class;  // of every sandbox; "" is the cluster's default
  std::string volume_default_size = "1Gi";
  std::map<std::string, std::string> execd_init_limits, execd_init_requests;
  std::chrono::seconds create_timeout{60};
  std::chrono::seconds pool_timeout{30};  // until a pool has given a pod
  std::chrono::seconds watch_time{290};
  // Opens connections to pods.
  std::function<std::unique_ptr<http::Connector>(net::any_io_executor)> connector;
};

// Reads the kubeconfig, or the pod's service account, and the workload's template.
Result<KubernetesOptions> kubernetes_options(const config::ServerConfig& config,
                                             const config::Environment& environment);

// A template of a workload in YAML. It must be a mapping, and so must the parts that are merged.
Result<boost::json::object> parse_workload(const std::string& text,
                                           WorkloadProvider provider = WorkloadProvider::BatchSandbox);

}  // namespace osb::runtime
