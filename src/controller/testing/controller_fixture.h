#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <boost/asio/post.hpp>
#include <boost/json/array.hpp>
#include <gtest/gtest.h>

#include "async/task_group.h"
#include "controller/controller.h"
#include "controller/names.h"
#include "kubernetes/testing/api_server.h"
#include "kubernetes/testing/status_answer.h"
#include "kubernetes/testing/test_time.h"
#include "support/await.h"

namespace osb::controller::testing {

namespace resources = kubernetes::resources;

// Task-executors without pods: tasks that tests end.
class FakeExecutors final : public TaskExecutors {
 public:
  explicit FakeExecutors(net::any_io_executor executor) : changed_(std::move(executor)) {}

  net::awaitable<Result<TaskList>> get(std::string address) override {
    ++questions;
    if (unreachable.contains(address)) co_return fail(Code::Unavailable, "no answer");
    co_return TaskList{tasks[address], version()};
  }
  net::awaitable<Result<TaskList>> set(std::string address, std::vector<api::Task> wanted) override {
    ++questions;
    if (unreachable.contains(address)) co_return fail(Code::Unavailable, "no answer");
    std::vector<api::Task>& here = tasks[address];
    std::erase_if(here, [&](const api::Task& each) {
      return !stubborn && std::ranges::find(wanted, each.name, &api::Task::name) == wanted.end();
    });
    for (api::Task& each : wanted) {
      if (std::ranges::find(here, each.name, &api::Task::name) != here.end()) continue;
      each.status = api::TaskRunning{};
      here.push_back(std::move(each));
      ++started;
    }
    co_return TaskList{here, version()};
  }
  net::awaitable<Result<TaskList>> wait_change(std::string address, std::uint64_t seen) override {
    co_await changed_.wait_until([this, seen] { return version_ != seen; });
    if (unreachable.contains(address)) co_return fail(Code::Unavailable, "no answer");
    co_return TaskList{tasks[address], version()};
  }
  // Tests changed tasks.
  void change() {
    ++version_;
    changed_.notify_all();
  }
  std::map<std::string, std::vector<api::Task>> tasks;
  std::set<std::string> unreachable;
  bool stubborn = false;  // tasks do not end
  bool versioned = true;  // false: like executors that cannot tell changes
  int started = 0, questions = 0;

 private:
  std::optional<std::uint64_t> version() const { return versioned ? std::optional(version_) : std::nullopt; }
  std::uint64_t version_ = 1;
  Notifier changed_;
};

// A cluster in the test's process: the API server, a kubelet that only sets statuses, and any number of controllers.
// Time passes when the test says so.
class ControllerFixture : public ::testing::Test {
 protected:
  struct Running {
    std::unique_ptr<kubernetes::Client> client;
    std::unique_ptr<Controller> controller;
    std::unique_ptr<TaskGroup> tasks;
  };

  ControllerFixture() : time(io.get_executor()) {
    for (const auto& each : {kBatchSandboxes, kPools, kSnapshots}) {
      server.store().add_type({.resource = each, .status = true, .custom = true});
    }
    auto notify = server.store().on_change;
    server.store().on_change = [this, notify] {
      notify();
      if (std::exchange(kubelet_called_, true)) return;
      net::post(io, [this] {
        kubelet_called_ = false;
        run_kubelet();
      });
    };
    client = open();
    must(client->create(resources::kNamespaces, "", {{"metadata", {{"name", "ns"}}}}));
  }
  ~ControllerFixture() override {
    while (!controllers.empty()) stop();
    client.reset();
    io.poll();
  }

  template <typename T>
  T run(net::awaitable<T> task) {
    return osb::testing::await(io, std::move(task));
  }
  template <typename T>
  T must(net::awaitable<Result<T>> task) {
    auto result = run(std::move(task));
    if (!result) throw std::runtime_error(result.error().message);
    if constexpr (!std::is_void_v<T>) return std::move(*result);
  }
  std::unique_ptr<kubernetes::Client> open() {
    kubernetes::ClientOptions wanted;
    wanted.clock = &time.clock();
    wanted.sleep = time.sleep();
    return std::move(*kubernetes::Client::open(io.get_executor(), server.config(), std::move(wanted)));
  }

  Running& start() {
    auto made = std::make_unique<Running>();
    made->client = open();
    made->controller = std::make_unique<Controller>(io.get_executor(), *made->client, executors, options);
    made->tasks = std::make_unique<TaskGroup>(io.get_executor());
    made->tasks->spawn("controller", made->controller->run());
    controllers.push_back(std::move(made));
    return *controllers.back();
  }
  // As if the process was killed: nothing of its memory is left.
  void stop() {
    run(controllers.back()->tasks->close());
    controllers.pop_back();
    io.poll();
  }
  // Until every controller has seen every object as it is, and has nothing to do.
  void settle() {
    while (!quiet()) io.run_one();
  }
  template <typename Condition>
  void until(Condition condition) {
    while (!condition()) io.run_one();
  }

  const kubernetes::testing::StoredType& type(const kubernetes::Resource& resource) { return server.type(resource); }
  ObjectPtr stored(const kubernetes::Resource& resource, const std::string& name) {
    auto found = server.store().get(type(resource), {"ns", name});
    return found ? *found : nullptr;
  }
  std::vector<ObjectPtr> all(const kubernetes::Resource& resource) { return server.store().list(type(resource), "ns"); }
  json::object make(const kubernetes::Resource& resource, json::object object) {
    object["apiVersion"] = resource.api_version();
    object["kind"] = resource.kind;
    auto made = server.store().create(type(resource), "ns", std::move(object));
    EXPECT_TRUE(made) << (made ? "" : made.error().message);
    return made ? **made : json::object();
  }
  void patch(const kubernetes::Resource& resource, const std::string& name, json::object wanted,
             const std::string& subresource = "") {
    must(client->patch({resource, {"ns", name}, subresource}, kubernetes::PatchType::Merge, std::move(wanted)));
  }
  void remove(const kubernetes::Resource& resource, const std::string& name) {
    must(client->remove({resource, {"ns", name}}));
  }

  static json::object pod_template(const std::string& image = "x:1") {
    return {{"metadata", {{"labels", {{"app", "x"}}}}},
            {"spec", {{"containers", json::array{json::object{{"name", "sandbox"}, {"image", image}}}}}}};
  }
  json::object sandbox(const std::string& name, json::object spec) {
    return make(kBatchSandboxes, {{"metadata", {{"name", name}}}, {"spec", std::move(spec)}});
  }
  json::object pooled(const std::string& name, int replicas = 1, json::object more = {}) {
    more["replicas"] = replicas;
    more["poolRef"] = "p";
    return sandbox(name, std::move(more));
  }
  json::object pool(int buffer, int most, json::object more = {}) {
    more["capacitySpec"] =
        json::object{{"bufferMin", buffer}, {"bufferMax", buffer}, {"poolMin", 0}, {"poolMax", most}};
    if (!more.contains("template")) more["template"] = pod_template();
    more["scaleStrategy"] = json::object{{"maxUnavailable", "100%"}};
    return make(kPools, {{"metadata", {{"name", "p"}}}, {"spec", std::move(more)}});
  }

  std::string phase(const std::string& name) {
    const ObjectPtr found = stored(kBatchSandboxes, name);
    return found ? std::string(kubernetes::text(*found, {"status", "phase"})) : "gone";
  }
  // "type:reason" of a sandbox's conditions, in their order.
  std::vector<std::string> conditions(const kubernetes::Resource& resource, const std::string& name) {
    std::vector<std::string> out;
    const ObjectPtr found = stored(resource, name);
    const json::value* list = found ? kubernetes::find(*found, {"status", "conditions"}) : nullptr;
    if (list == nullptr) return out;
    for (const json::value& each : list->as_array()) {
      out.push_back(std::string(each.at("type").as_string()) + ":" + std::string(each.at("reason").as_string()));
    }
    return out;
  }
  std::vector<std::string> pods() {
    std::vector<std::string> out;
    for (const ObjectPtr& each : all(resources::kPods)) {
      if (!kubernetes::is_deleting(*each)) out.push_back(kubernetes::key_of(*each).name);
    }
    return out;
  }
  std::vector<std::string> held(const std::string& name) {
    const ObjectPtr found = stored(kBatchSandboxes, name);
    return found ? BatchSandbox::read(found).held() : std::vector<std::string>();
  }
  // Each pod has at most one holder, and each claim belongs to it.
  void expect_no_double_allocation() {
    std::map<std::string, std::string> holder;
    for (const ObjectPtr& each : all(kBatchSandboxes)) {
      const BatchSandbox read = BatchSandbox::read(each);
      for (const std::string& pod : read.held()) {
        EXPECT_TRUE(holder.emplace(pod, read.key.name).second)
            << pod << " is held by " << holder[pod] << " and " << read.key.name;
        if (const ObjectPtr there = stored(resources::kPods, pod)) {
          EXPECT_EQ(kubernetes::annotation(*there, keys::kClaim), read.uid) << pod;
        }
      }
    }
  }
  std::size_t writes() const { return static_cast<std::size_t>(std::ranges::count_if(server.requests, is_write)); }
  static bool is_write(const std::string& request) {
    return !request.starts_with("GET") && !request.contains("/events") && !request.contains("/leases");
  }

  net::io_context io{1};
  kubernetes::testing::ApiServer server{io};
  kubernetes::testing::TestTime time;
  FakeExecutors executors{io.get_executor()};
  ControllerOptions options;
  std::unique_ptr<kubernetes::Client> client;  // of the test
  std::vector<std::unique_ptr<Running>> controllers;
  bool kubelet_runs = true;
  bool kubelet_deletes = true;

  bool quiet() {
    for (const auto& each : controllers) {
      if (!each->controller->synced() || !each->controller->idle()) return false;
    }
    if (kubelet_called_) return false;
    for (const auto& each : controllers) {
      for (std::size_t i = 0; i < kKinds; ++i) {
        if (!same(each->controller->cluster().cache(static_cast<Kind>(i)), static_cast<Kind>(i))) return false;
      }
    }
    return true;
  }

 private:
  bool same(const kubernetes::ObjectCache& cache, Kind kind) {
    std::size_t count = 0;
    for (const ObjectPtr& each : server.store().list(type(resource_of(kind)), "")) {
      if (kind == Kind::PoolPods && kubernetes::label(*each, keys::kPoolName).empty()) continue;
      if (kind == Kind::ReplicaPods && kubernetes::label(*each, keys::kReplicaOf).empty()) continue;
      if (kind == Kind::Jobs && kubernetes::label(*each, keys::kSnapshotName).empty()) continue;
      ++count;
      const ObjectPtr known = cache.get(kubernetes::key_of(*each));
      if (!known || kubernetes::version_of(*known) != kubernetes::version_of(*each)) return false;
    }
    return count == cache.size();
  }
  void run_kubelet() {
    const std::uint64_t until = server.store().version();
    std::vector<Key> touched;
    const auto& history = server.store().history();
    for (auto next = std::ranges::upper_bound(history, kubelet_saw_, {}, &kubernetes::testing::Change::version);
         next != history.end(); ++next) {
      const auto& change = *next;
      if (change.type != &type(resources::kPods) || !change.after) continue;
      touched.push_back(kubernetes::key_of(*change.after));
    }
    kubelet_saw_ = until;
    for (const Key& key : touched) {
      const auto found = server.store().get(type(resources::kPods), key);
      if (!found) continue;
      if (kubernetes::is_deleting(**found)) {
        if (kubelet_deletes) (void)server.store().remove(type(resources::kPods), key, {.grace_seconds = 0});
      } else if (kubelet_runs && kubernetes::text(**found, {"spec", "nodeName"}).empty()) {
        set_running(key);
      }
    }
  }

 protected:
  void set_running(const Key& key) {
    json::object pod = **server.store().get(type(resources::kPods), key);
    kubernetes::make_object(pod, {"spec"})["nodeName"] = "node-1";
    pod = **server.store().update(type(resources::kPods), key, std::move(pod), "");
    const int number = ++addresses_;
    pod["status"] =
        json::object{{"phase", "Running"},
                     {"podIP", "10.0." + std::to_string(number / 250) + "." + std::to_string(number % 250 + 1)},
                     {"conditions", json::array{json::object{{"type", "Ready"}, {"status", "True"}}}},
                     {"containerStatuses", json::array{json::object{{"name", "sandbox"},
                                                                    {"containerID", "c" + std::to_string(number)},
                                                                    {"state", {{"running", json::object()}}}}}}};
    (void)server.store().update(type(resources::kPods), key, std::move(pod), "status");
  }
  void set_status(const kubernetes::Resource& resource, const std::string& name, json::object status) {
    json::object object = *stored(resource, name);
    object["status"] = std::move(status);
    (void)server.store().update(type(resource), {"ns", name}, std::move(object), "status");
  }

 private:
  bool kubelet_called_ = false;
  std::uint64_t kubelet_saw_ = 0;
  int addresses_ = 0;
};

}  // namespace osb::controller::testing
