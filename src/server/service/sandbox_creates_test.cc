// The answers of a create: a sandbox that runs, one that is on its way, or why there is none.

#include "server/service/sandbox_service_fixture.h"

namespace osb::server {
namespace {

using osb::testing::await;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class SandboxCreatesTest : public testing::SandboxServiceTest {
 protected:
  using Answer = Result<SandboxService::CreateResult>;

  void SetUp() override {
    SandboxServiceTest::SetUp();
    no_image_.reason = "FAKE::SANDBOX_IMAGE_PULL_FAILED";
  }

  static SandboxService::CreateOptions with_key(seconds wait) {
    return {.idempotency_key = "k", .fingerprint = "f", .wait = wait};
  }
  std::future<Answer> begin_create(SandboxService::CreateOptions options) {
    return net::co_spawn(io_, service_->create(wanted(), *admin_, std::move(options)), net::use_future);
  }
  Answer finish(std::future<Answer> answer) {
    io_.restart();
    while (answer.wait_for(seconds(0)) != std::future_status::ready) io_.run_one();
    return answer.get();
  }
  void until_handed(std::size_t creates = 1) {
    until([&, creates] { return backend_.creates.size() == creates; });
  }
  // Nothing is left in the backend's or the store's keeping.
  void expect_nothing_left() {
    until([&] { return !backend_.removes.empty() && store_->removals().empty(); });
    EXPECT_EQ(store_->size(), 0u);
    EXPECT_THAT(backend_.alive, IsEmpty());
  }

  Error no_image_{Code::NotFound, "no such image"};
};

TEST_F(SandboxCreatesTest, ACreateThatFailsInTimeIsAnsweredWithItsErrorAndLeavesNoRecord) {
  backend_.create_error = no_image_;
  const auto made = create();
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::Internal);  // the contract's 500
  EXPECT_EQ(made.error().reason, "FAKE::SANDBOX_IMAGE_PULL_FAILED");
  EXPECT_EQ(made.error().message, "no such image");
  expect_nothing_left();
}

TEST_F(SandboxCreatesTest, ACreateThatFailsLateKeepsItsCodeAndMessageInItsRecord) {
  backend_.hold_creates = true;
  backend_.create_error = no_image_;
  const auto made = create({}, seconds(0));
  ASSERT_TRUE(made);
  EXPECT_EQ(made->record->status.state, "Pending");
  until_handed();
  backend_.release_creates();
  const auto settled = await(io_, service_->wait_settled(made->record, seconds(10)));
  EXPECT_EQ(settled->status.state, "Failed");
  EXPECT_EQ(settled->status.reason, "FAKE::SANDBOX_IMAGE_PULL_FAILED");
  EXPECT_EQ(settled->status.message, "no such image");
}

TEST_F(SandboxCreatesTest, TheKeyOfACreateThatFailedInTimeCanBeUsedAgain) {
  backend_.create_error = no_image_;
  EXPECT_EQ(reason(await(io_, service_->create(wanted(), *admin_, with_key(seconds(10))))),
            "FAKE::SANDBOX_IMAGE_PULL_FAILED");
  backend_.create_error.reset();
  auto other_body = with_key(seconds(10));
  other_body.fingerprint = "g";
  const auto made = await(io_, service_->create(wanted(), *admin_, other_body));
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->record->status.state, "Running");
  // And stays free of the failure after a restart.
  restart();
  const auto again = await(io_, service_->create(wanted(), *admin_, other_body));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->record->id, made->record->id);
}

TEST_F(SandboxCreatesTest, ARepeatedCreateThatWaitsWithTheFirstGetsTheSameError) {
  backend_.hold_creates = true;
  backend_.create_error = no_image_;
  auto first = begin_create(with_key(seconds(10)));
  until_handed();
  auto second = begin_create(with_key(seconds(10)));
  io_.restart();
  io_.poll();
  backend_.release_creates();
  EXPECT_EQ(reason(finish(std::move(first))), "FAKE::SANDBOX_IMAGE_PULL_FAILED");
  EXPECT_EQ(reason(finish(std::move(second))), "FAKE::SANDBOX_IMAGE_PULL_FAILED");
  EXPECT_THAT(backend_.creates, SizeIs(1));
  expect_nothing_left();
}

// The store shows a record before the create that wrote it goes on.
TEST_F(SandboxCreatesTest, ARepeatedCreateThatFindsTheRecordBeforeTheFirstGoesOnGetsTheSameError) {
  until_recovered();  // the loop has nothing else to do
  backend_.create_error = no_image_;
  auto first = begin_create(with_key(seconds(10)));
  io_.restart();
  io_.run_one();  // the first waits for the store now
  auto second = begin_create(with_key(seconds(10)));
  ASSERT_TRUE(await(store_->flush()));  // on a loop of its own: the first is told, behind the start of the second
  ASSERT_EQ(store_->size(), 1u);
  ASSERT_THAT(backend_.creates, IsEmpty());
  EXPECT_EQ(reason(finish(std::move(second))), "FAKE::SANDBOX_IMAGE_PULL_FAILED");
  EXPECT_EQ(reason(finish(std::move(first))), "FAKE::SANDBOX_IMAGE_PULL_FAILED");
  EXPECT_THAT(backend_.creates, SizeIs(1));
  expect_nothing_left();
}

TEST_F(SandboxCreatesTest, ARecordWhoseIdWasGivenOutStays) {
  backend_.hold_creates = true;
  backend_.create_error = no_image_;
  auto first = begin_create(with_key(seconds(10)));
  until_handed();
  const auto second = await(io_, service_->create(wanted(), *admin_, with_key(seconds(0))));
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(second->record->status.state, "Pending");
  backend_.release_creates();
  const auto answer = finish(std::move(first));
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->record->id, second->record->id);
  EXPECT_EQ(answer->record->status.state, "Failed");
  EXPECT_EQ(state(second->record->id), "Failed");
}

// The two meet anywhere between the failure and the moment at which its record is gone.
TEST_F(SandboxCreatesTest, ARepeatedCreateThatMeetsTheWithdrawalIsAnsweredWithAnError) {
  for (int steps = 0; steps < 40; ++steps) {
    backend_.creates.clear();
    backend_.hold_creates = true;
    backend_.create_error = no_image_;
    auto first = begin_create(with_key(seconds(10)));
    until_handed();
    backend_.release_creates();
    io_.restart();
    for (int i = 0; i < steps; ++i) io_.poll_one();
    auto second = begin_create(with_key(seconds(10)));
    EXPECT_EQ(reason(finish(std::move(second))), "FAKE::SANDBOX_IMAGE_PULL_FAILED") << steps;
    EXPECT_EQ(reason(finish(std::move(first))), "FAKE::SANDBOX_IMAGE_PULL_FAILED") << steps;
    EXPECT_EQ(store_->size(), 0u) << steps;
  }
}

TEST_F(SandboxCreatesTest, ACreateOfAnEarlierProcessThatFailsFreesTheKeyOfItsWaiter) {
  backend_.hold_creates = true;
  backend_.create_error = no_image_;
  auto first = begin_create(with_key(seconds(0)));
  EXPECT_TRUE(finish(std::move(first)));
  until_handed();
  end();
  backend_.creates.clear();
  reopen();
  begin();
  until_handed();
  auto second = begin_create(with_key(seconds(10)));
  io_.restart();
  io_.poll();
  backend_.release_creates();
  EXPECT_EQ(reason(finish(std::move(second))), "FAKE::SANDBOX_IMAGE_PULL_FAILED");
  backend_.create_error.reset();
  EXPECT_TRUE(await(io_, service_->create(wanted(), *admin_, with_key(seconds(10)))));
}

TEST_F(SandboxCreatesTest, ARepeatedCreateWaitsForOneThatTheBackendHasFromAnEarlierProcess) {
  backend_.hold_creates = true;
  auto first = begin_create(with_key(seconds(0)));
  ASSERT_TRUE(finish(std::move(first)));
  until_handed();
  const std::string id = backend_.creates.front();
  backend_.create_error = no_image_;  // unknown to the process that ends
  end();
  backend_.create_error.reset();
  backend_.alive[id].id = id;
  backend_.alive[id].state = runtime::InstanceState::Creating;
  reopen();
  begin();
  until_recovered();
  auto second = begin_create(with_key(seconds(10)));
  io_.restart();
  io_.poll();
  ASSERT_EQ(second.wait_for(seconds(0)), std::future_status::timeout) << state(id);
  backend_.alive.at(id).state = runtime::InstanceState::Running;
  backend_.say(id);
  const auto answer = finish(std::move(second));
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->record->status.state, "Running");
}

TEST_F(SandboxCreatesTest, ADeleteDuringTheWaitIsNotUndoneByTheFailure) {
  backend_.hold_creates = true;
  backend_.create_error = no_image_;
  auto creating = begin_create({.wait = seconds(10)});
  until_handed();
  const std::string id = backend_.creates.front();
  auto removing = net::co_spawn(io_, service_->remove(id, Scope::all()), net::use_future);
  until([&] { return !backend_.removes.empty(); });
  backend_.release_creates();
  (void)finish(std::move(creating));
  while (removing.wait_for(seconds(0)) != std::future_status::ready) io_.run_one();
  EXPECT_TRUE(removing.get());
  expect_nothing_left();
}

TEST_F(SandboxCreatesTest, AnEntrypointThatEndsAtOnceIsASandboxWithARecord) {
  const auto made = create();
  ASSERT_TRUE(made);
  backend_.alive.at(made->record->id).state = runtime::InstanceState::Ended;
  backend_.alive.at(made->record->id).exit_code = 3;
  backend_.say(made->record->id);
  EXPECT_EQ(state(made->record->id), "Failed");
}

TEST_F(SandboxCreatesTest, AClosingServerAnswersWithWhatItHasAccepted) {
  backend_.hold_creates = true;
  auto creating = begin_create({.wait = seconds(60)});
  until_handed();
  service_->begin_close();
  const auto made = finish(std::move(creating));
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->record->status.state, "Pending");
}

TEST(CreateFailureTest, StatusAndCodeAreTheContracts) {
  const struct {
    const char* why;
    Code code;
    const char* reason;
    Code want;
    const char* want_reason;
  } rows[] = {
      {"a missing image is no missing address", Code::NotFound, "X::SANDBOX_IMAGE_PULL_FAILED", Code::Internal,
       "X::SANDBOX_IMAGE_PULL_FAILED"},
      {"a missing snapshot was named by the request", Code::NotFound, "SNAPSHOT::NOT_FOUND", Code::NotFound,
       "SNAPSHOT::NOT_FOUND"},
      {"a wrong request stays one", Code::InvalidRequest, "SANDBOX::INVALID_PARAMETER", Code::InvalidRequest,
       "SANDBOX::INVALID_PARAMETER"},
      {"no code", Code::Timeout, "", Code::Internal, "X::SANDBOX_START_FAILED"},
      {"worth another try", Code::Exhausted, "SANDBOX::CAPACITY_EXCEEDED", Code::Exhausted,
       "SANDBOX::CAPACITY_EXCEEDED"},
  };
  for (const auto& row : rows) {
    Error error(row.code, "text");
    error.reason = row.reason;
    const Error got = create_failure(error, "X");
    EXPECT_EQ(got.code, row.want) << row.why;
    EXPECT_EQ(got.reason, row.want_reason) << row.why;
    EXPECT_EQ(got.message, "text") << row.why;
  }
}

}  // namespace
}  // namespace osb::server
