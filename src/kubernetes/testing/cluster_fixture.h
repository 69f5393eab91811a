#pragma once

#include <cstdlib>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include "base/id.h"
#include "kubernetes/client.h"
#include "kubernetes/testing/api_server.h"
#include "support/await.h"

namespace osb::kubernetes::testing {

// The cluster that a suite runs against: the one of the kubeconfig that OSB_TEST_KUBECONFIG names, or the in-process
// server. Each test has a namespace of its own. Tests that need the knobs of the in-process server begin with
// OSB_ONLY_IN_PROCESS().
class ClusterFixture : public ::testing::Test {
 protected:
  ClusterFixture() {
    const char* file = std::getenv("OSB_TEST_KUBECONFIG");
    if (file == nullptr) server = std::make_unique<ApiServer>(io);
    client = open();
    const auto made = run(client->create(resources::kNamespaces, "", {{"metadata", {{"generateName", "osb-test-"}}}}));
    EXPECT_TRUE(made) << made.error().message;
    ns = made ? key_of(*made).name : "default";
  }
  ~ClusterFixture() override {
    if (!server) (void)run(client->remove({resources::kNamespaces, {"", ns}}));
    client.reset();
    server.reset();
    io.poll();
  }

  ClusterConfig config() const {
    if (server) return server->config();
    auto loaded = load_kubeconfig(std::getenv("OSB_TEST_KUBECONFIG"));
    EXPECT_TRUE(loaded) << loaded.error().message;
    return *loaded;
  }
  std::unique_ptr<Client> open(ClientOptions options = {}) {
    auto made = Client::open(io.get_executor(), config(), std::move(options));
    EXPECT_TRUE(made) << (made ? "" : made.error().message);
    return std::move(*made);
  }
  template <typename T>
  T run(net::awaitable<T> task) {
    return osb::testing::await(io, std::move(task));
  }
  // The result of a call that must succeed.
  template <typename T>
  T must(net::awaitable<Result<T>> task) {
    auto result = run(std::move(task));
    if (!result) throw std::runtime_error(result.error().message);
    if constexpr (!std::is_void_v<T>) return std::move(*result);
  }
  json::object make_map(const std::string& name, json::object data = {}, json::object metadata = {}) {
    metadata["name"] = name;
    return must(client->create(resources::kConfigMaps, ns, {{"metadata", metadata}, {"data", data}}));
  }
  Ref map_ref(const std::string& name) const { return {resources::kConfigMaps, {ns, name}}; }

  net::io_context io{1};
  std::unique_ptr<ApiServer> server;  // null with a real cluster
  std::unique_ptr<Client> client;
  std::string ns;
};

#define OSB_ONLY_IN_PROCESS() \
  if (!server) GTEST_SKIP() << "needs the knobs of the in-process server"

}  // namespace osb::kubernetes::testing
