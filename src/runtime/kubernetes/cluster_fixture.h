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
    server.store().add_type({kBatchSandboxes, true, false, true});
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

  // Makes the pods that are missing, and tells the workload how its pod is. Changes call it again.
  void act() {
    acting_ = false;
    auto& store = server.store();
    const auto& pods = server.type(kubernetes::resources::kPods);
    for (const auto& each : store.list(server.type(kBatchSandboxes), "sandboxes")) {
      if (kubernetes::is_deleting(*each)) continue;
      const std::string name = kubernetes::key_of(*each).name;
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
