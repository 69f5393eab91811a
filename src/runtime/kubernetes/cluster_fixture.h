#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/post.hpp>

#include "async/task_group.h"
#include "http/server.h"
#include "kubernetes/testing/cluster_fixture.h"
#include "runtime/kubernetes/kubernetes_backend.h"
#include "runtime/kubernetes/manifest.h"

namespace osb::runtime::testing {

namespace json = boost::json;

// A cluster in the test's process, with the parts that make a sandbox run: it makes a pod for each BatchSandbox and
// sets statuses as a controller and a kubelet would. Behind the address of every pod answers one and the same execd.
class TestCluster {
 public:
  explicit TestCluster(net::io_context& io)
      : executor_(io.get_executor()),
        server(io),
        execd_(executor_, [this](http::Request& request) { return answer(request); }) {
    for (const auto& each : {kBatchSandboxes, kPools, kSandboxSnapshots, kAgentSandboxes}) {
      server.store().add_type({each, true, false, true});
    }
    const auto bound = execd_.listen(http::Address::tcp("127.0.0.1", 0));
    execd_address_ = bound.value().to_string();
    server.store().on_change = [this, before = server.store().on_change] {
      before();
      if (!std::exchange(acting_, true)) net::post(executor_, [this] { act(); });
    };
    (void)server.store().create(server.type(kubernetes::resources::kNamespaces), "",
                                {{"metadata", {{"name", "sandboxes"}}}});
  }

  KubernetesOptions options() {
    KubernetesOptions out;
    out.cluster = server.config();
    out.ns = "sandboxes";
    out.execd_image = "execd:test";
    // Every pod is the one execd.
    out.connector = [this](net::any_io_executor) { return std::make_unique<ToExecd>(*this); };
    return out;
  }

  // The pod as it is after its creation; a test replaces it to let pods fail.
  std::function<void(json::object& pod)> on_pod = [](json::object& pod) { run_pod(pod); };
  bool make_pods = true;
  bool has_idle_pods = true;  // in every pool
  bool pauses_work = true;
  std::string snapshot_fails_for;  // reason; "": snapshots work
  bool execd_answers = true;
  std::vector<std::string> tokens;  // of questions to execd

  static void run_pod(json::object& pod) {
    pod["status"] = {{"phase", "Running"},
                     {"podIP", "192.0.2.7"},
                     {"containerStatuses",
                      json::array{json::object{{"name", "sandbox"}, {"state", {{"running", json::object()}}}}}}};
  }
  static void end_pod(json::object& pod, int code) {
    pod["status"] = {
        {"phase", code == 0 ? "Succeeded" : "Failed"},
        {"podIP", "192.0.2.7"},
        {"containerStatuses",
         json::array{json::object{{"name", "sandbox"}, {"state", {{"terminated", {{"exitCode", code}}}}}}}}};
  }
  void change_pod(const std::string& id, const std::function<void(json::object&)>& change) {
    const auto& type = server.type(kubernetes::resources::kPods);
    json::object pod = *server.store().get(type, {"sandboxes", id + "-0"}).value();
    change(pod);
    (void)server.store().update(type, {"sandboxes", id + "-0"}, std::move(pod), "status");
  }
  json::object workload(const std::string& id) {
    const auto found = server.store().get(server.type(kBatchSandboxes), {"sandboxes", id});
    return found ? **found : json::object();
  }
  std::size_t count(const kubernetes::Resource& resource) {
    return server.store().list(server.type(resource), "sandboxes").size();
  }

 private:
  class ToExecd final : public http::Connector {
   public:
    explicit ToExecd(TestCluster& cluster) : cluster_(cluster) {}
    net::awaitable<Result<std::unique_ptr<http::Transport>>> connect(std::string,
                                                                     std::chrono::milliseconds timeout) override {
      return plain_->connect(cluster_.execd_address_, timeout);
    }

   private:
    TestCluster& cluster_;
    std::unique_ptr<http::Connector> plain_ = http::make_plain_connector();
  };

  net::awaitable<http::Response> answer(http::Request& request) {
    tokens.emplace_back(request.headers.get("X-EXECD-ACCESS-TOKEN"));
    co_return http::empty_response(execd_answers ? 200 : 503);
  }

  void set_status(const kubernetes::Resource& resource, const json::object& of, json::object status) {
    json::object changed = of;
    changed["status"] = std::move(status);
    (void)server.store().update(server.type(resource), kubernetes::key_of(of), std::move(changed), "status");
  }

  // A pod of the pool, as the controller gives it.
  void give_pod(const json::object& workload) {
    if (!has_idle_pods || !kubernetes::annotation(workload, "sandbox.opensandbox.io/alloc-status").empty()) return;
    json::object changed = workload;
    json::object& notes = kubernetes::make_object(changed, {"metadata", "annotations"});
    notes["sandbox.opensandbox.io/alloc-status"] = R"({"pods":["fast-x1"]})";
    notes["sandbox.opensandbox.io/endpoints"] = R"(["192.0.2.8"])";
    const auto given =
        server.store().update(server.type(kBatchSandboxes), kubernetes::key_of(workload), std::move(changed), "");
    if (given) set_status(kBatchSandboxes, **given, {{"phase", "Succeed"}, {"ready", 1}, {"taskRunning", 1}});
  }

  // Whether the workload rests, or was just told to.
  bool pause_or_resume(const json::object& workload, const kubernetes::Key& pod) {
    const std::string_view phase = kubernetes::text(workload, {"status", "phase"});
    const json::value* wish = kubernetes::find(workload, {"spec", "pause"});
    const auto generation = kubernetes::number(workload, {"metadata", "generation"});
    if (wish != nullptr && *wish == true && phase == "Succeed") {
      const bool tried = generation == kubernetes::number(workload, {"status", "pauseObservedGeneration"});
      if (!pauses_work && tried) return true;
      json::object status{{"phase", pauses_work ? "Paused" : "Succeed"}, {"pauseObservedGeneration", generation}};
      if (!pauses_work) {
        status["conditions"] = json::array{json::object{
            {"type", "PauseFailed"}, {"status", "True"}, {"reason", "SnapshotFailed"}, {"message", "no registry"}}};
      } else {
        (void)server.store().remove(server.type(kubernetes::resources::kPods), pod, {});
      }
      set_status(kBatchSandboxes, workload, std::move(status));
      return true;
    }
    if (phase != "Paused") return false;
    if (wish != nullptr && *wish == false) set_status(kBatchSandboxes, workload, {{"phase", "Resuming"}});
    return true;
  }

  void save_snapshots() {
    for (const auto& each : server.store().list(server.type(kSandboxSnapshots), "sandboxes")) {
      if (kubernetes::find(*each, {"status", "phase"}) != nullptr) continue;
      json::object status{
          {"phase", "Succeed"},
          {"containers", json::array{json::object{{"containerName", "sandbox"}, {"imageUri", "reg.test/saved:1"}}}}};
      if (!snapshot_fails_for.empty()) {
        status = {{"phase", "Failed"},
                  {"conditions",
                   json::array{json::object{
                       {"type", "Failed"}, {"status", "True"}, {"reason", snapshot_fails_for}, {"message", "no"}}}}};
      }
      set_status(kSandboxSnapshots, *each, std::move(status));
    }
  }

  void follow_agents() {
    for (const auto& each : server.store().list(server.type(kAgentSandboxes), "sandboxes")) {
      const bool rests = kubernetes::text(*each, {"spec", "operatingMode"}) == "Suspended";
      const std::string_view type = rests ? "Suspended" : "Ready";
      const json::value* known = kubernetes::find(*each, {"status", "conditions"});
      if (known != nullptr && known->at(0).at("type") == json::value(type)) continue;
      set_status(kAgentSandboxes, *each,
                 {{"podIPs", {"192.0.2.9"}},
                  {"conditions", json::array{json::object{{"type", type}, {"status", "True"}, {"reason", "Test"}}}}});
    }
  }

  // Makes the pods that are missing, and tells the workload how its pod is. Changes call it again.
  void act() {
    acting_ = false;
    auto& store = server.store();
    const auto& pods = server.type(kubernetes::resources::kPods);
    save_snapshots();
    follow_agents();
    for (const auto& each : store.list(server.type(kBatchSandboxes), "sandboxes")) {
      if (kubernetes::is_deleting(*each)) continue;
      const std::string name = kubernetes::key_of(*each).name;
      if (kubernetes::find(*each, {"spec", "poolRef"}) != nullptr) {
        give_pod(*each);
        continue;
      }
      if (pause_or_resume(*each, {"sandboxes", name + "-0"})) continue;
      auto pod = store.get(pods, {"sandboxes", name + "-0"});
      if (!pod && make_pods) {
        json::object made = kubernetes::find(*each, {"spec", "template"})->as_object();
        json::object& metadata = kubernetes::make_object(made, {"metadata"});
        metadata["name"] = name + "-0";
        metadata["ownerReferences"] = json::array{kubernetes::owner_reference(*each, true)};
        pod = store.create(pods, "sandboxes", std::move(made));
        json::object with_status = **pod;
        on_pod(with_status);
        pod = store.update(pods, {"sandboxes", name + "-0"}, std::move(with_status), "status");
      }
      const bool runs = pod && kubernetes::text(**pod, {"status", "phase"}) == "Running";
      if (!runs || kubernetes::text(*each, {"status", "phase"}) == "Succeed") continue;
      json::object ready = *each;
      ready["status"] = {{"phase", "Succeed"}, {"ready", 1}};
      (void)store.update(server.type(kBatchSandboxes), {"sandboxes", name}, std::move(ready), "status");
    }
  }

  net::any_io_executor executor_;

 public:
  kubernetes::testing::ApiServer server;

 private:
  http::Server execd_;
  std::string execd_address_;
  bool acting_ = false;  // act() is about to run
};

}  // namespace osb::runtime::testing
