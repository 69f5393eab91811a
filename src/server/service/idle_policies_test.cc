#include "server/service/idle_policies.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http/server.h"
#include "server/service/sandbox_service_fixture.h"

namespace osb::server {
namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct LocalPorts final : runtime::PortMap {
  explicit LocalPorts(std::string address) : origin(std::move(address)) {}
  runtime::Route route(std::uint16_t) const override { return {origin, ""}; }
  runtime::ClientRoute client_route(std::uint16_t) const override { return {origin, false}; }
  std::string origin;
};

// Sandboxes whose execd, and every other port, is a server of the test.
class IdlePoliciesTest : public testing::SandboxServiceTest {
 protected:
  void SetUp() override {
    SandboxServiceTest::SetUp();
    execd_ = std::make_unique<http::Server>(
        io_.get_executor(),
        [this](http::Request& request) -> net::awaitable<http::Response> {
          ++asked_[std::string(request.path())];
          const bool probe = request.path() == "/probe";
          co_return http::json_response(200, probe ? probe_answer_ : execd_answer_);
        },
        http::ServerOptions());
    const auto address = execd_->listen(http::Address::tcp("127.0.0.1", 0));
    ASSERT_TRUE(address);
    origin_ = address->to_string();
  }
  void TearDown() override {
    end();
    osb::testing::await(io_, execd_->stop(std::chrono::milliseconds(0)));
    SandboxServiceTest::TearDown();
  }

  std::string running(api::IdlePolicy policy) {
    api::CreateSandbox create = wanted();
    create.lifecycle.idle = std::move(policy);
    const auto made = osb::testing::await(io_, service_->create(create, *admin_, {.wait = seconds(10)}));
    EXPECT_TRUE(made);
    const std::string id = made->record->id;
    backend_.alive.at(id).ports = std::make_shared<LocalPorts>(origin_);
    backend_.say(id);
    return id;
  }
  // The clock moves on, what is due is looked at, and its effects are there.
  void pass(seconds time) {
    clock_.advance(time);
    (void)service_->idle_policies().check();
    io_.restart();
    while (idle().under_way() > 0) io_.run_one();
    io_.poll();
  }
  IdlePolicies& idle() { return service_->idle_policies(); }

  std::unique_ptr<http::Server> execd_;
  std::string origin_;
  std::string execd_answer_ = R"({"active":false,"idle_ms":100000})";
  std::string probe_answer_ = R"({"active":true})";
  std::map<std::string, int> asked_;
};

const api::IdlePolicy kHalfAMinute{seconds(30), true, std::nullopt};

TEST_F(IdlePoliciesTest, ASandboxIsPausedAfterItsIdleTime) {
  const std::string id = running(kHalfAMinute);
  pass(seconds(29));
  EXPECT_EQ(state(id), "Running");
  EXPECT_EQ(asked_["/activity"], 0) << "before it is due nothing is asked";
  pass(seconds(1));
  EXPECT_EQ(state(id), "Paused");
  EXPECT_EQ(asked_["/activity"], 1);
  pass(seconds(3600));
  EXPECT_EQ(asked_["/activity"], 1) << "a paused sandbox is left alone";
}

TEST_F(IdlePoliciesTest, WithoutATimeItIsNeverPaused) {
  const std::string id = running({std::nullopt, true, std::nullopt});
  pass(seconds(100000));
  EXPECT_EQ(state(id), "Running");
}

TEST_F(IdlePoliciesTest, ARequestPutsThePauseOffUntilItsAnswerHasEnded) {
  const std::string id = running(kHalfAMinute);
  {
    const auto access = idle().begin_access(*store_->find(id));
    pass(seconds(100));
    EXPECT_EQ(state(id), "Running");
  }
  pass(seconds(29));
  EXPECT_EQ(state(id), "Running");
  pass(seconds(1));
  EXPECT_EQ(state(id), "Paused");
}

TEST_F(IdlePoliciesTest, WorkInTheSandboxCounts) {
  const std::string id = running(kHalfAMinute);
  execd_answer_ = R"({"active":true,"idle_ms":0})";
  pass(seconds(30));
  pass(seconds(30));
  EXPECT_EQ(state(id), "Running");
  EXPECT_EQ(asked_["/activity"], 2);
  execd_answer_ = R"({"active":false,"idle_ms":20000})";
  pass(seconds(30));
  EXPECT_EQ(state(id), "Running") << "its last work is 20 s old";
  execd_answer_ = R"({"active":false,"idle_ms":30000})";
  pass(seconds(10));
  EXPECT_EQ(state(id), "Paused");
}

TEST_F(IdlePoliciesTest, AnAnswerThatIsNoneCountsAsWork) {
  const std::string id = running(kHalfAMinute);
  for (const char* answer : {"", "{", "[]", R"({"active":"no"})", R"({"active":false,"idle_ms":-5})"}) {
    execd_answer_ = answer;
    pass(seconds(30));
    EXPECT_EQ(state(id), "Running") << answer;
  }
}

TEST_F(IdlePoliciesTest, TheProbeIsAskedLast) {
  api::IdlePolicy policy = kHalfAMinute;
  policy.probe = api::ActiveProbe{8000, "/probe", seconds(2)};
  const std::string id = running(policy);
  pass(seconds(30));
  EXPECT_EQ(state(id), "Running");
  EXPECT_EQ(asked_["/probe"], 1);
  probe_answer_ = R"({"active":false,"message":"all done"})";
  pass(seconds(30));
  EXPECT_EQ(state(id), "Paused");
}

TEST_F(IdlePoliciesTest, APauseThatFailsIsTriedAgain) {
  const std::string id = running(kHalfAMinute);
  backend_.pause_error = Error(Code::Internal, "busy");
  pass(seconds(30));
  EXPECT_EQ(state(id), "Running");
  backend_.pause_error.reset();
  pass(seconds(30));
  EXPECT_EQ(state(id), "Paused");
}

TEST_F(IdlePoliciesTest, AWakeMakesItRunAndBeginsTheIdleTimeAnew) {
  const std::string id = running(kHalfAMinute);
  pass(seconds(30));
  ASSERT_EQ(state(id), "Paused");
  EXPECT_TRUE(osb::testing::await(io_, idle().wake(id)));
  EXPECT_EQ(state(id), "Running");
  pass(seconds(29));
  EXPECT_EQ(state(id), "Running");
  pass(seconds(1));
  EXPECT_EQ(state(id), "Paused");
}

TEST_F(IdlePoliciesTest, AWakeThatFailsIsAnError) {
  const std::string id = running(kHalfAMinute);
  pass(seconds(30));
  backend_.pause_error = Error(Code::Internal, "the disk is gone");
  const auto woken = osb::testing::await(io_, idle().wake(id));
  ASSERT_FALSE(woken);
  EXPECT_NE(woken.error().message.find("the disk is gone"), std::string::npos);
  EXPECT_EQ(state(id), "Paused");
}

TEST_F(IdlePoliciesTest, AtMost256RequestsWaitForAWakeAndGoOnInTheirOrder) {
  const std::string id = running(kHalfAMinute), other = running(kHalfAMinute);
  pass(seconds(30));
  ASSERT_EQ(state(id) + state(other), "PausedPaused");
  backend_.hold_resumes = true;
  std::vector<int> woken, refused;
  std::string why;
  const auto request = [&](int number) -> net::awaitable<void> {
    const auto outcome = co_await idle().wake(id);
    (outcome ? woken : refused).push_back(number);
    if (!outcome) why = outcome.error().message;
    backend_.changed.notify_all();
  };
  for (int i = 0; i < 260; ++i) net::co_spawn(io_, request(i), net::detached);
  until([&] { return refused.size() >= 4; });
  EXPECT_THAT(refused, ElementsAre(256, 257, 258, 259)) << "those that came last";
  EXPECT_THAT(why, AllOf(HasSubstr("256"), HasSubstr(id), HasSubstr("send the request again")));
  EXPECT_THAT(woken, IsEmpty());
  EXPECT_EQ(state(id), "Resuming");
  bool other_woken = false;
  net::co_spawn(
      io_,
      [&]() -> net::awaitable<void> {
        other_woken = (co_await idle().wake(other)).has_value();
        backend_.changed.notify_all();
      },
      net::detached);
  backend_.release_resumes();
  until([&] { return woken.size() == 256 && other_woken; });
  EXPECT_TRUE(std::ranges::is_sorted(woken));
  EXPECT_EQ(state(id), "Running");
  EXPECT_EQ(backend_.resumes, 2) << "one for each sandbox";
  EXPECT_EQ(refused.size(), 4u);
  pass(seconds(30));
  ASSERT_EQ(state(id), "Paused");
  EXPECT_TRUE(osb::testing::await(io_, idle().wake(id))) << "there is room again";
}

TEST_F(IdlePoliciesTest, TheNextProcessKnowsThePolicy) {
  const std::string id = running(kHalfAMinute);
  restart();
  until_recovered();
  pass(seconds(30));
  EXPECT_EQ(state(id), "Paused");
  restart();
  until_recovered();
  EXPECT_TRUE(osb::testing::await(io_, idle().wake(id)));
  EXPECT_EQ(state(id), "Running");
}

}  // namespace
}  // namespace osb::server
