#include "server/service/sandbox_service_fixture.h"

// Deadlines, renewals, and how long what has ended is shown.
namespace osb::server {
namespace {

using osb::testing::await;
using std::chrono::microseconds;
using std::chrono::seconds;
using ::testing::IsEmpty;

class SandboxDeadlinesTest : public testing::SandboxServiceTest {};

TEST_F(SandboxDeadlinesTest, NoSandboxEndsBeforeItsDeadline) {
  const std::string id = running(seconds(60));
  clock_.advance(seconds(60) - microseconds(1));
  service_->check_deadlines();
  EXPECT_EQ(state(id), "Running");
  clock_.advance(microseconds(1));
  service_->check_deadlines();
  until([&] { return backend_.removes.size() == 1; });
  EXPECT_EQ(state(id), "");
}

TEST_F(SandboxDeadlinesTest, SettingTheClockNeitherEndsASandboxNorKeepsIt) {
  for (const seconds by : {seconds(3600), seconds(-3600)}) {
    const std::string before = running(seconds(60));
    const std::string renewed = running(seconds(60));
    const Timestamp shown = *store_->find(before)->expires_at;
    clock_.set(clock_.now() + by);
    ASSERT_TRUE(await(io_, service_->renew(renewed, Scope::all(), service_->time().now() + seconds(90))));
    const std::string after = running(seconds(90));
    clock_.advance(seconds(60) - microseconds(1));
    service_->check_deadlines();
    EXPECT_EQ(state(before), "Running") << by.count();
    EXPECT_EQ(*store_->find(before)->expires_at, shown) << "what was answered";
    clock_.advance(microseconds(1));
    service_->check_deadlines();
    until([&] { return state(before).empty(); });
    clock_.advance(seconds(30) - microseconds(1));
    service_->check_deadlines();
    EXPECT_EQ(state(renewed) + state(after), "RunningRunning") << by.count();
    clock_.advance(microseconds(1));
    service_->check_deadlines();
    until([&] { return state(renewed).empty() && state(after).empty(); });
  }
}

TEST_F(SandboxDeadlinesTest, AServerThatStartsGoesByTheWallClock) {
  const std::string id = running(seconds(60));
  clock_.set(clock_.now() + seconds(3600));
  restart();
  service_->check_deadlines();
  until([&] { return backend_.removes.size() == 1; });
  EXPECT_EQ(state(id), "");
}

TEST_F(SandboxDeadlinesTest, TenThousandDeadlinesAtOnceAreMet) {
  constexpr int kCount = 10'000;
  int stored = 0;
  for (int i = 0; i < kCount; ++i) {
    auto record =
        testing::sandbox("s" + std::to_string(i), service_->time().now(), service_->time().now() + seconds(60));
    record.status.state = api::state::kRunning;
    net::co_spawn(io_, store_->create(std::move(record), {}), [&](std::exception_ptr, const auto& created) {
      if (created) ++stored;
    });
  }
  io_.restart();
  while (stored < kCount) io_.run_one();
  clock_.advance(seconds(60));
  service_->check_deadlines();
  while (store_->size() > 0) io_.run_one();
  until([&] { return backend_.removes.size() == kCount; });
  while (!store_->removals().empty()) io_.run_one();
}

// Time passes with every call of now().
class TickingClock final : public Clock {
 public:
  explicit TickingClock(FakeClock& clock) : clock_(clock) {}
  std::chrono::system_clock::time_point now() const override { return clock_.now(); }
  std::chrono::steady_clock::time_point steady_now() const override {
    clock_.advance(std::chrono::milliseconds(1));
    return clock_.steady_now();
  }

 private:
  FakeClock& clock_;
};

TEST_F(SandboxDeadlinesTest, ADeadlineBetweenTwoLooksAtTheClockIsMet) {
  TickingClock ticking(clock_);
  end();
  service_ = std::make_unique<SandboxService>(io_.get_executor(), *store_, backend_, ticking, options_);
  service_->start();
  const auto store = [&](const std::string& id, Timestamp end) {
    auto record = testing::sandbox(id, service_->time().now(), end);
    record.status.state = api::state::kRunning;
    ASSERT_TRUE(await(io_, store_->create(std::move(record), {})));
  };
  // The end of the first makes the service look; the second becomes due about then, each time a little later.
  for (int later = 0; later < 20; ++later) {
    const Timestamp end = service_->time().now() + seconds(60);
    store("first" + std::to_string(later), end);
    store("second" + std::to_string(later), end + std::chrono::milliseconds(later) + microseconds(500));
    clock_.advance(end - service_->time().now());
    service_->check_deadlines();
    while (store_->size() > 0) io_.run_one();
  }
  end();  // before its clock
}

TEST_F(SandboxDeadlinesTest, ARenewedSandboxOutlivesItsFirstDeadline) {
  const std::string id = running(seconds(60));
  const auto renewed = await(io_, service_->renew(id, Scope::all(), service_->time().now() + seconds(600)));
  ASSERT_TRUE(renewed);
  clock_.advance(seconds(61));
  service_->check_deadlines();
  EXPECT_EQ(state(id), "Running");
  EXPECT_THAT(backend_.removes, IsEmpty());
}

TEST_F(SandboxDeadlinesTest, ADueSandboxCannotBeRenewed) {
  const std::string id = running(seconds(60));
  clock_.advance(seconds(60));  // the timer has not fired yet
  EXPECT_EQ(reason(await(io_, service_->renew(id, Scope::all(), service_->time().now() + seconds(600)))),
            "FAKE::SANDBOX_NOT_FOUND");
  service_->check_deadlines();
  until([&] { return backend_.removes.size() == 1; });
}

TEST_F(SandboxDeadlinesTest, RenewalsKnowTheirLimits) {
  const std::string id = running();
  EXPECT_EQ(reason(await(io_, service_->renew(id, Scope::all(), service_->time().now()))), "FAKE::INVALID_EXPIRATION");
  const auto manual = await(io_, service_->renew(id, Scope::all(), service_->time().now() + seconds(60)));
  ASSERT_FALSE(manual);
  EXPECT_EQ(manual.error().code, Code::Conflict);
  EXPECT_EQ(manual.error().reason, "FAKE::INVALID_EXPIRATION");
  EXPECT_EQ(reason(await(io_, service_->renew("none", Scope::all(), service_->time().now() + seconds(60)))),
            "FAKE::SANDBOX_NOT_FOUND");
}

TEST_F(SandboxDeadlinesTest, OneThatEndedStaysVisibleForAnHour) {
  const std::string id = running();
  runtime::Instance& instance = backend_.alive.at(id);
  instance.state = runtime::InstanceState::Ended;
  instance.reason = "OUT_OF_MEMORY";
  instance.exit_code = 137;
  backend_.say(id);
  EXPECT_EQ(state(id), "Failed");
  EXPECT_EQ(store_->find(id)->status.reason, "OUT_OF_MEMORY");
  // Late words about its life change nothing.
  instance.state = runtime::InstanceState::Running;
  backend_.say(id);
  EXPECT_EQ(state(id), "Failed");
  restart();  // remembered by the record
  clock_.advance(seconds(3599));
  service_->check_deadlines();
  EXPECT_EQ(state(id), "Failed");
  clock_.advance(seconds(1));
  service_->check_deadlines();
  until([&] { return backend_.removes.size() == 1; });
  EXPECT_EQ(state(id), "");
}

}  // namespace
}  // namespace osb::server
