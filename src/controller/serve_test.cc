#include "controller/serve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/testing/controller_fixture.h"
#include "http/client.h"

namespace osb::controller {
namespace {

using ::testing::HasSubstr;

// The whole program, with real time: nothing here waits for it.
class ServeTest : public testing::ControllerFixture {
 protected:
  ~ServeTest() override {
    for (auto& each : programs) run(each->close());
  }
  void serve_as(const std::string& identity, const http::Address& metrics = http::Address::tcp("127.0.0.1", 0)) {
    CommandLine line;
    line.lease_namespace = "ns";
    line.health = metrics;
    programs.push_back(std::make_unique<TaskGroup>(io.get_executor()));
    programs.back()->spawn(identity, drive(line, identity));
  }
  net::awaitable<void> drive(CommandLine line, std::string identity) {
    (void)co_await serve(io.get_executor(), server.config(), line, identity);
  }
  std::string holder() {
    const ObjectPtr lease = stored(kubernetes::resources::kLeases, "2fa1c467.opensandbox.io");
    return lease ? std::string(kubernetes::text(*lease, {"spec", "holderIdentity"})) : "";
  }
  std::vector<std::unique_ptr<TaskGroup>> programs;
};

TEST_F(ServeTest, OneOfTwoLeadsAndTheOtherFollowsAtOnce) {
  serve_as("first");
  until([&] { return holder() == "first"; });
  serve_as("second");
  sandbox("a", {{"template", pod_template()}});
  until([&] { return phase("a") == "Succeed"; });
  EXPECT_EQ(holder(), "first");
  run(programs.front()->close());
  until([&] { return holder() == "second"; });
  sandbox("b", {{"template", pod_template()}});
  until([&] { return phase("b") == "Succeed"; });
  EXPECT_EQ(pods().size(), 2u);
}

}  // namespace
}  // namespace osb::controller
