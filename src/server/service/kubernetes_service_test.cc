// The whole service on the kubernetes backend, with a cluster in the test's process.

#include <filesystem>
#include <memory>

#include <gtest/gtest.h>

#include "runtime/kubernetes/cluster_fixture.h"
#include "server/access/secure_access.h"
#include "server/service/sandbox_service.h"
#include "server/store/store_fixture.h"

namespace osb::server {
namespace {

using osb::testing::await;
using runtime::testing::TestCluster;
using std::chrono::seconds;

// One server: its records, its backend and its service.
class Server {
 public:
  Server(net::io_context& io, TestCluster& cluster, std::filesystem::path path) : io_(io) {
    store_ = std::move(open_sqlite_store({.path = std::move(path)}).value());
    backend_ = await(io_, runtime::KubernetesBackend::connect(io_.get_executor(), cluster.options())).value();
    service_ = std::make_unique<SandboxService>(io_.get_executor(), *store_, *backend_, system_clock(), options_);
    service_->start();
    await(io_, service_->wait_for_backend(std::chrono::minutes(1)));
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server() {
    await(io_, service_->close());
    service_.reset();
    await(io_, backend_->close());
    backend_.reset();
    store_.reset();
  }
  SandboxService* operator->() { return service_.get(); }
  SandboxPtr find(const std::string& id) const { return store_->find(id); }

  Result<SandboxService::CreateResult> create(const std::string& key = "", bool secure_access = false) {
    api::CreateSandbox wanted;
    wanted.image = api::ImageSpec{"debian:12", {}};
    wanted.entrypoint = {"sleep", "infinity"};
    wanted.resource_limits = api::StringMap{};
    wanted.timeout = seconds(3600);
    wanted.metadata = api::StringMap{{"team", "a"}};
    wanted.secure_access = secure_access;
    return await(io_, service_->create(wanted, *admin_, {.idempotency_key = key, .wait = seconds(60)}));
  }
  // Runs the loop until the record of the sandbox is as wanted.
  template <typename Condition>
  SandboxPtr until(const std::string& id, Condition condition) {
    io_.restart();
    while (!condition(find(id))) io_.run_one();
    return find(id);
  }

 private:
  net::io_context& io_;
  const PrincipalPtr admin_ = std::make_shared<const Principal>(Owner(), Role::Administrator);
  ServiceOptions options_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<runtime::KubernetesBackend> backend_;
  std::unique_ptr<SandboxService> service_;
};

class KubernetesService : public ::testing::Test {
 protected:
  Server open(const std::string& name = "a") { return {io, cluster, temp / name / "store.db"}; }

  osb::testing::TempDir temp;
  net::io_context io{1};
  TestCluster cluster{io};
};

TEST_F(KubernetesService, ASandboxIsMadeFoundRenewedAndRemoved) {
  Server server = open();
  const auto made = server.create();
  ASSERT_TRUE(made) << made.error().message;
  const std::string id = made->record->id;
  EXPECT_EQ(made->record->status.state, "Running");
  const auto requests = cluster.server.requests.size();
  EXPECT_EQ((*server->get(id, Scope::all()))->status.state, "Running");
  EXPECT_EQ(cluster.server.requests.size(), requests);
  ASSERT_NE(server->instance(id), nullptr);
  EXPECT_EQ(server->instance(id)->ports->client_route(8080).endpoint, "192.0.2.7:8080");

  const Timestamp later = *made->record->expires_at + seconds(600);
  ASSERT_TRUE(await(io, server->renew(id, Scope::all(), later)));
  EXPECT_EQ(parse_timestamp(kubernetes::text(cluster.workload(id), {"spec", "expireTime"})).value(), later);
  ASSERT_TRUE(await(io, server->patch_metadata(id, Scope::all(), {{"team", "b"}})));
  EXPECT_EQ(kubernetes::label(cluster.workload(id), "team"), "b");

  ASSERT_TRUE(await(io, server->remove(id, Scope::all())));
  EXPECT_TRUE(cluster.workload(id).empty());
  EXPECT_FALSE(server->get(id, Scope::all()));
}

TEST_F(KubernetesService, AFailedCreateLeavesNothing) {
  cluster.on_pod = [](runtime::testing::json::object& pod) { TestCluster::end_pod(pod, 1); };
  Server server = open();
  const auto made = server.create();
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().reason, "KUBERNETES::POD_FAILED");
  EXPECT_EQ(cluster.count(runtime::kBatchSandboxes), 0u);
}

TEST_F(KubernetesService, AServerWithoutRecordsTakesTheSandboxesOver) {
  std::string id;
  Timestamp later;
  {
    Server first = open("a");
    const auto made = first.create();
    ASSERT_TRUE(made) << made.error().message;
    id = made->record->id;
    later = *made->record->expires_at + seconds(600);
    ASSERT_TRUE(await(io, first->renew(id, Scope::all(), later)));
  }
  Server second = open("b");
  const SandboxPtr record =
      second.until(id, [](const SandboxPtr& each) { return each && each->status.state == "Running"; });
  EXPECT_EQ(record->expires_at, later);
  EXPECT_EQ(record->metadata->at("team"), "a");
  EXPECT_EQ(record->spec->entrypoint, (std::vector<std::string>{"sleep", "infinity"}));
  EXPECT_FALSE(record->execd_token.empty());
  ASSERT_TRUE(await(io, second->remove(id, Scope::all())));
  EXPECT_EQ(cluster.count(runtime::kBatchSandboxes), 0u);
}

TEST_F(KubernetesService, TwoServersMakeOneSandboxOfOneKey) {
  Server first = open("a"), second = open("b");
  const auto one = first.create("key"), two = second.create("key");
  ASSERT_TRUE(one) << one.error().message;
  ASSERT_TRUE(two) << two.error().message;
  EXPECT_EQ(one->record->id, two->record->id);
  EXPECT_EQ(cluster.count(runtime::kBatchSandboxes), 1u);

  // A renewal by one of them is known to the other.
  const std::string& id = one->record->id;
  const Timestamp later = *one->record->expires_at + seconds(600);
  ASSERT_TRUE(await(io, first->renew(id, Scope::all(), later)));
  second.until(id, [&](const SandboxPtr& each) { return each && each->expires_at == later; });
  // And so is a removal.
  ASSERT_TRUE(await(io, first->remove(id, Scope::all())));
  second.until(id, [](const SandboxPtr& each) { return !each || each->has_ended(); });
}

TEST_F(KubernetesService, APauseIsCarriedOutByTheClusterAndKnownToBothServers) {
  Server first = open("a"), second = open("b");
  const auto made = first.create();
  ASSERT_TRUE(made) << made.error().message;
  const std::string& id = made->record->id;
  const auto is = [](const char* state) {
    return [state](const SandboxPtr& each) { return each && each->status.state == state; };
  };
  second.until(id, is("Running"));
  ASSERT_TRUE(await(io, first->pause(id, Scope::all())));
  first.until(id, is("Paused"));
  second.until(id, is("Paused"));
  ASSERT_TRUE(await(io, second->resume(id, Scope::all())));
  first.until(id, is("Running"));
}

TEST_F(KubernetesService, TheSnapshotObjectsAreTheCatalogueOfAllServers) {
  const PrincipalPtr admin = std::make_shared<const Principal>(Owner(), Role::Administrator);
  Server first = open("a"), second = open("b");
  const auto made = first.create();
  ASSERT_TRUE(made) << made.error().message;
  const auto snapshot = await(io, first->snapshots().create(made->record->id, "saved", *admin));
  ASSERT_TRUE(snapshot) << snapshot.error().message;
  const std::string id = (*snapshot)->id;
  const auto ready = [&](Server& server) {
    const auto found = server->snapshots().get(id, Scope::all());
    return found && (*found)->status.state == "Ready";
  };
  io.restart();
  while (!ready(first) || !ready(second)) io.run_one();
  EXPECT_EQ((*second->snapshots().get(id, Scope::all()))->name, "saved");
  EXPECT_EQ((*second->snapshots().get(id, Scope::all()))->sandbox_id, made->record->id);
  // A server that comes later finds it too.
  Server third = open("c");
  io.restart();
  while (!ready(third)) io.run_one();

  ASSERT_TRUE(await(io, second->snapshots().remove(id, Scope::all())));
  io.restart();
  while (first->snapshots().get(id, Scope::all()) || third->snapshots().get(id, Scope::all())) io.run_one();
  EXPECT_EQ(cluster.count(runtime::kSandboxSnapshots), 0u);
}

TEST_F(KubernetesService, AGatewayFindsTheTokenThatTheServerGivesToClients) {
  Server server = open();
  const auto made = server.create("", true);
  ASSERT_TRUE(made) << made.error().message;
  const std::string token = secure_access_token(*made->record);
  ASSERT_FALSE(token.empty());
  EXPECT_EQ(kubernetes::annotation(cluster.workload(made->record->id), "opensandbox.io/secure-access-token"), token);
}

}  // namespace
}  // namespace osb::server
