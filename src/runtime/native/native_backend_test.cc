#include "runtime/native/native_backend.h"

#include <sys/socket.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_future.hpp>
#include <gmock/gmock.h>

#include "async/task_group.h"
#include "async/timer.h"
#include "http/router.h"
#include "http/server.h"
#include "runtime/native/native_ports.h"
#include "support/await.h"
#include "support/temp_dir.h"
#include "sys/send_descriptor.h"

namespace osb::runtime {
namespace {

using http::Request;
using http::Response;
using osb::testing::await;
using Answer = net::awaitable<Response>;
using std::chrono::milliseconds;
using ::testing::ElementsAre;

constexpr const char* kRunning = R"({"id":"a","state":"running","address":"10.0.0.2","execd_token":"t",
  "execd_socket":"/run/a.sock","created_at":"2025-01-02T03:04:05Z"})";

// A daemon that answers as the test wants, on a real Unix socket.
class NativeBackendTest : public ::testing::Test {
 protected:
  void listen() {
    server_ = std::make_unique<http::Server>(io_.get_executor(),
                                             [this](Request& request) { return router_.dispatch(request); });
    ASSERT_TRUE(server_->listen(http::Address::unix_socket(socket())));
  }
  void TearDown() override {
    if (server_) await(io_, server_->stop(milliseconds(0)));
  }
  std::string socket() const { return (directory_ / "d.sock").string(); }

  osb::testing::TempDir directory_;
  net::io_context io_{1};
  http::Router router_;
  std::unique_ptr<http::Server> server_;
  NativeBackend backend_{socket(), milliseconds(5000)};
};

struct Heard final : Observer {
  explicit Heard(net::any_io_executor executor) : changed(std::move(executor)) {}
  void note(std::string what) {
    events.push_back(std::move(what));
    changed.notify_all();
  }
  void on_all(std::vector<Instance> instances) override { note("all " + std::to_string(instances.size())); }
  void on_change(Instance instance) override { note("changed " + instance.id); }
  void on_removed(std::string id) override { note("removed " + id); }
  void on_lost(const Error&) override { note("lost"); }
  std::vector<std::string> events;
  Notifier changed;
};

TEST_F(NativeBackendTest, ADaemonThatIsNotThereIsUnavailable) {
  const auto found = await(io_, backend_.lifecycle().inspect("a"));
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Code::Unavailable);
  EXPECT_THAT(found.error().message, ::testing::HasSubstr(socket()));
}

TEST_F(NativeBackendTest, RefusalsKeepTheirCode) {
  router_.post("/v1/sandboxes",
               [](Request&) -> Answer { co_return http::problem(500, "NATIVE::SANDBOX_START_FAILED", "no cgroup"); });
  listen();
  api::CreateSandbox create;
  create.image = api::ImageSpec{"host", {}};
  const SandboxSpec spec{"a", std::make_shared<const api::CreateSandbox>(create), ""};
  const auto made = await(io_, backend_.lifecycle().create(spec));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::Internal);
  EXPECT_EQ(made.error().reason, "NATIVE::SANDBOX_START_FAILED");
  EXPECT_EQ(made.error().message, "no cgroup");
}

TEST_F(NativeBackendTest, AnUnknownSandboxIsRemovedAlready) {
  listen();
  EXPECT_TRUE(await(io_, backend_.lifecycle().remove("a")));
  EXPECT_TRUE(await(io_, backend_.snapshots()->remove("s")));
  EXPECT_EQ(await(io_, backend_.snapshots()->exists("s")), false);
  EXPECT_FALSE(await(io_, backend_.lifecycle().pause("a")));
}

TEST_F(NativeBackendTest, WatchingStartsAgainWhenTheStreamEnds) {
  int rounds = 0;
  router_.get("/v1/events", [&](Request&) -> Answer {
    Response response;
    response.body = http::StreamBody{[&](http::BodyWriter& out) -> net::awaitable<Result<void>> {
                                       ++rounds;
                                       const std::string all =
                                           std::string(R"({"type":"all","sandboxes":[)") + kRunning + "]}";
                                       std::string text = all;
                                       std::erase(text, '\n');
                                       // Lines may come in pieces.
                                       (void)co_await out.write(text.substr(0, 20));
                                       (void)co_await out.write(text.substr(20) + "\n{\"type\":\"rem");
                                       co_return co_await out.write("oved\",\"id\":\"b\"}\n");
                                     },
                                     std::nullopt};
    co_return response;
  });
  listen();
  Heard heard(io_.get_executor());
  TaskGroup tasks(io_.get_executor());
  tasks.spawn("watch", backend_.lifecycle().watch(heard));
  await(io_, heard.changed.wait_until([&] { return heard.events.size() >= 5; }));
  await(io_, tasks.close());
  EXPECT_THAT(std::vector(heard.events.begin(), heard.events.begin() + 5),
              ElementsAre("all 1", "removed b", "lost", "all 1", "removed b"));
  EXPECT_GE(rounds, 2);
}

TEST(NativePortsTest, PortsAreReachedTheShortestWay) {
  const NativePorts located("a", "10.0.0.2", "/run/a.sock");
  EXPECT_EQ(located.route(44772).origin, "unix:/run/a.sock");
  EXPECT_EQ(located.route(80).origin, "10.0.0.2:80");
  EXPECT_EQ(located.route(80).path, "");
  const NativePorts without_network("a", "", "/run/a.sock");
  EXPECT_EQ(without_network.route(80).origin, "sandboxd:a/80");
}

TEST(NativePortsTest, ClientsUseTheAddressAndNeedTheProxyWithoutOne) {
  const NativePorts located("a", "10.0.0.2", "/run/a.sock");
  EXPECT_EQ(located.client_route(44772).endpoint, "10.0.0.2:44772");
  EXPECT_TRUE(located.client_route(44772).through_execd);
  EXPECT_EQ(located.client_route(80).endpoint, "10.0.0.2:80");
  EXPECT_FALSE(located.client_route(80).through_execd);
  EXPECT_EQ(NativePorts("a", "", "/run/a.sock").client_route(80).endpoint, "");
}

TEST_F(NativeBackendTest, ASocketThatIsHandedOverBecomesTheConnection) {
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  const UniqueFd ours(pair[0]);
  UniqueFd theirs(pair[1]);
  router_.post("/v1/sandboxes/{id}/connect/{port:int}", [&](Request& request) -> Answer {
    EXPECT_EQ(request.params["id"], "a");
    EXPECT_EQ(request.params["port"], "80");
    Response response;
    response.status = 101;
    response.headers.set("Upgrade", "opensandbox-socket");
    response.headers.set("Connection", "Upgrade");
    response.body = http::UpgradeHandler([&](http::Transport& transport, std::string) -> net::awaitable<void> {
      EXPECT_TRUE(sys::send_descriptor(transport.native_fd(), theirs.get()));
      theirs.reset();
      transport.shutdown_write();
      co_return;
    });
    co_return response;
  });
  listen();
  const auto connector = backend_.connector();
  auto transport = await(io_, connector->connect("sandboxd:a/80", milliseconds(5000)));
  ASSERT_TRUE(transport) << transport.error().message;
  ASSERT_TRUE(await(io_, (*transport)->write_all(std::string_view("hello"))));
  char text[16] = {};
  EXPECT_EQ(::read(ours.get(), text, sizeof text), 5);
  EXPECT_STREQ(text, "hello");
}

TEST_F(NativeBackendTest, ARefusedConnectionSaysWhy) {
  listen();
  const auto connector = backend_.connector();
  const auto transport = await(io_, connector->connect("sandboxd:a/80", milliseconds(5000)));
  ASSERT_FALSE(transport);
  EXPECT_THAT(transport.error().message, ::testing::HasSubstr("NOT_FOUND"));
}

}  // namespace
}  // namespace osb::runtime
