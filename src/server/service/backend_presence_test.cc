#include "server/service/backend_presence.h"

#include "server/service/sandbox_service_fixture.h"

namespace osb::server {
namespace {

using osb::testing::await;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

using BackendPresenceTest = testing::SandboxServiceTest;

TEST_F(BackendPresenceTest, ABackendThatComesBackGetsTheCreateAgain) {
  backend_.create_error = Error(Code::Unavailable, "connection refused");
  const auto made = create({}, seconds(0));
  until([&] { return !backend_.creates.empty(); });
  backend_.create_error.reset();
  EXPECT_EQ(state(made->record->id), "Pending");
  service_->observer().on_lost(Error(Code::Unavailable, "gone"));
  EXPECT_FALSE(service_->backend_reachable());
  net::co_spawn(
      io_,
      [&]() -> net::awaitable<void> {
        service_->observer().on_all({});
        co_return;
      }(),
      net::use_future);
  const auto record = await(io_, service_->wait_settled(made->record, seconds(20)));
  EXPECT_EQ(record->status.state, "Running");
  EXPECT_TRUE(service_->backend_reachable());
}

// However long that is: nothing but the backend's return, or a removal, ends the wait.
TEST_F(BackendPresenceTest, ACreateAcceptedBeforeTheBackendWasLostWaitsForIt) {
  backend_.hold_creates = true;
  const auto made = create({}, seconds(0));
  const auto unwanted = create({}, seconds(0));
  ASSERT_TRUE(made && unwanted);
  until([&] { return backend_.creates.size() == 2; });
  service_->observer().on_lost(Error(Code::Unavailable, "gone"));
  backend_.create_error = Error(Code::Unavailable, "connection refused");
  backend_.release_creates();
  EXPECT_TRUE(await(io_, service_->remove(unwanted->record->id, Scope::all())));
  EXPECT_EQ(state(made->record->id), "Pending");
  EXPECT_THAT(store_->find(made->record->id)->status.message, ::testing::HasSubstr("the fake does not answer"));
  backend_.create_error.reset();
  service_->observer().on_all({});
  const auto record = await(io_, service_->wait_settled(made->record, seconds(20)));
  EXPECT_EQ(record->status.state, "Running");
  EXPECT_THAT(backend_.creates, ElementsAre(made->record->id, unwanted->record->id, made->record->id));
}

TEST_F(BackendPresenceTest, ACreateIsRefusedWithTheReasonWhileTheBackendIsAway) {
  until([&] { return backend_.observer != nullptr; });
  const SandboxService::CreateOptions known{.idempotency_key = "k", .fingerprint = "f", .wait = seconds(10)};
  const auto before = await(io_, service_->create(wanted(), *admin_, known));
  ASSERT_TRUE(before);
  backend_.away = Error(Code::Unavailable, "connection refused");
  service_->observer().on_lost(*backend_.away);
  clock_.advance(seconds(3));
  const auto refused = create();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::Unavailable);
  EXPECT_EQ(refused.error().reason, "FAKE::UNAVAILABLE");
  EXPECT_EQ(refused.error().message,
            "no sandbox can be created: the fake does not answer (connection refused); try again later");
  EXPECT_EQ(store_->size(), 1u);
  const auto ready = await(io_, service_->check_ready());
  ASSERT_FALSE(ready);
  EXPECT_EQ(ready.error().message, "the fake does not answer");
  // A repeated create asks for nothing new.
  const auto again = await(io_, service_->create(wanted(), *admin_, known));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->record->id, before->record->id);
  service_->observer().on_all(backend_.all());
  running();
}

TEST_F(BackendPresenceTest, ABackendThatIsBackUnnoticedIsFoundByTheNextCreate) {
  until([&] { return backend_.observer != nullptr; });
  service_->observer().on_lost(Error(Code::Unavailable, "connection refused"));
  clock_.advance(seconds(3));
  backend_.returned = true;
  running();
}

TEST_F(BackendPresenceTest, ACreateDuringARestartOfTheBackendIsServed) {
  until([&] { return backend_.observer != nullptr; });
  service_->observer().on_lost(Error(Code::Unavailable, "connection refused"));
  auto creating = net::co_spawn(io_, service_->create(wanted(), *admin_, {.wait = seconds(10)}), net::use_future);
  io_.restart();
  io_.poll();
  EXPECT_EQ(store_->size(), 0u);
  service_->observer().on_all({});
  while (creating.wait_for(seconds(0)) != std::future_status::ready) io_.run_one();
  const auto made = creating.get();
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->record->status.state, "Running");
}

TEST_F(BackendPresenceTest, AFreshServerHearsOfItsBackendBeforeItRefusesACreate) {
  end();
  backend_.hold_watch = true;
  begin();
  auto creating = net::co_spawn(io_, service_->create(wanted(), *admin_, {.wait = seconds(10)}), net::use_future);
  io_.restart();
  io_.poll();
  EXPECT_THAT(backend_.creates, IsEmpty());
  backend_.release_watch();
  while (creating.wait_for(seconds(0)) != std::future_status::ready) io_.run_one();
  EXPECT_TRUE(creating.get());
}

}  // namespace
}  // namespace osb::server
