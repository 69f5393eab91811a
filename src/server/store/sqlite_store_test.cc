#include "server/store/sqlite_store.h"

#include <sys/stat.h>
#include <thread>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>

#include "server/store/record_index.h"
#include "server/store/store_fixture.h"

namespace osb::server::testing {
namespace {

using osb::testing::await;
using std::chrono::seconds;

using SqliteStoreTest = StoreFixture;

TEST_F(SqliteStoreTest, EverythingOfARecordIsThereAfterARestart) {
  SandboxRecord record = sandbox("a", at(1), at(100));
  record.metadata = api::Metadata{{"team", "x"}, {"empty", ""}};
  record.access_renew = seconds(300);
  create(record);
  reopen();
  const SandboxPtr found = store_->find("a");
  ASSERT_TRUE(found);
  EXPECT_EQ(*found->spec, *record.spec);
  EXPECT_EQ(found->metadata, record.metadata);
  EXPECT_EQ(found->status, record.status);
  EXPECT_EQ(found->created_at, record.created_at);
  EXPECT_EQ(found->expires_at, record.expires_at);
  EXPECT_EQ(found->access_renew, record.access_renew);
  EXPECT_EQ(store_->size(), 1u);
}

TEST_F(SqliteStoreTest, AbsentAndEmptyMetadataStayApart) {
  SandboxRecord empty = sandbox("empty");
  empty.metadata.emplace();
  create(empty);
  create(sandbox("absent"));
  reopen();
  EXPECT_TRUE(store_->find("empty")->metadata);
  EXPECT_FALSE(store_->find("absent")->metadata);
}

TEST_F(SqliteStoreTest, OnlyTheOwnerCanReadTheFile) {
  struct stat file{}, directory{};
  ASSERT_EQ(::stat(path().c_str(), &file), 0);
  ASSERT_EQ(::stat(path().parent_path().c_str(), &directory), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600u);
  EXPECT_EQ(directory.st_mode & 0777, 0700u);
}

TEST_F(SqliteStoreTest, AnIdIsGivenOnce) {
  create(sandbox("a"));
  EXPECT_EQ(await(store_->create(sandbox("a"), {})).error().code, Code::Conflict);
  ASSERT_TRUE(await(store_->begin_remove("a")));
  EXPECT_EQ(await(store_->create(sandbox("a"), {})).error().code, Code::Conflict) << "its removal is not over";
}

TEST_F(SqliteStoreTest, ARepeatedKeyGivesTheFirstSandboxAlsoAfterARestart) {
  const IdempotencyKey key{"k", "body-1", R"({"id":"a"})"};
  const auto first = await(store_->create(sandbox("a"), key));
  ASSERT_TRUE(first);
  EXPECT_TRUE(first->fresh);
  for (const bool restarted : {false, true}) {
    if (restarted) reopen();
    const auto again = await(store_->create(sandbox("b", at(5)), IdempotencyKey{"k", "body-1", "other"}));
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_FALSE(again->fresh);
    EXPECT_EQ(again->id, "a");
    EXPECT_EQ(again->answer, R"({"id":"a"})");
    EXPECT_EQ(again->record, store_->find("a"));
    EXPECT_FALSE(store_->find("b"));
  }
  const auto other = await(store_->create(sandbox("c", at(5)), IdempotencyKey{"k", "body-2", ""}));
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Code::Conflict);
  EXPECT_EQ(other.error().reason, "SANDBOX::IDEMPOTENCY_CONFLICT");
  EXPECT_FALSE(store_->find("c"));
}

TEST_F(SqliteStoreTest, AKeyOutlivesItsSandboxAndIsForgottenAfterADay) {
  ASSERT_TRUE(await(store_->create(sandbox("a"), IdempotencyKey{"k", "f", "answer"})));
  ASSERT_TRUE(await(store_->begin_remove("a")));
  const auto gone = store_->find_key("k", "f", at(86399));
  ASSERT_TRUE(gone && *gone);
  EXPECT_EQ((*gone)->record, nullptr);
  EXPECT_EQ((*gone)->answer, "answer");
  EXPECT_FALSE(store_->find_key("k", "other", at(1)));
  EXPECT_FALSE(*store_->find_key("k", "f", at(86400)));
  const auto next_day = await(store_->create(sandbox("b", at(86400)), IdempotencyKey{"k", "other", "2"}));
  ASSERT_TRUE(next_day) << next_day.error().message;
  EXPECT_TRUE(next_day->fresh);
  reopen();
  EXPECT_EQ((*store_->find_key("k", "other", at(86401)))->id, "b");
}

TEST_F(SqliteStoreTest, AKeyIsFreedTogetherWithItsSandbox) {
  ASSERT_TRUE(await(store_->create(sandbox("a"), IdempotencyKey{"k", "f", "1"})));
  ASSERT_TRUE(await(store_->create(sandbox("b"), IdempotencyKey{"other", "f", "2"})));
  ASSERT_TRUE(await(store_->begin_remove("a", "other"))) << "it stands for b, and stays";
  EXPECT_TRUE(*store_->find_key("other", "f", at(1)));
  EXPECT_TRUE(*store_->find_key("k", "f", at(1)));
  ASSERT_TRUE(await(store_->begin_remove("b", "other")));
  EXPECT_FALSE(*store_->find_key("other", "f", at(1)));
  reopen();
  EXPECT_FALSE(*store_->find_key("other", "f", at(1)));
  const auto again = await(store_->create(sandbox("c"), IdempotencyKey{"other", "g", "3"}));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_TRUE(again->fresh);
  reopen();
  EXPECT_EQ((*store_->find_key("other", "g", at(1)))->id, "c");
}

// A create that fails takes its record and frees its key in one change: a repeated create sees both or none.
TEST(RecordIndexTest, AKeyAndItsRecordAreOfOneMoment) {
  RecordIndex index;
  const auto record = std::make_shared<const SandboxRecord>(sandbox("a"));
  RecordIndex::Changes made, gone;
  made.sandboxes["a"] = record;
  made.keys["k"] = {"f", "a", "answer", at(0)};
  gone.sandboxes["a"] = nullptr;
  gone.keys_gone = {"k"};
  std::jthread writer([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      index.apply(made);
      index.apply(gone);
    }
  });
  for (int i = 0; i < 20'000; ++i) {
    const auto known = index.find_key_and_record("k");
    if (!known) continue;
    ASSERT_EQ(known->record, record);
  }
}

TEST_F(SqliteStoreTest, OfCreatesWithOneNameThatWantItForThemselvesOneWins) {
  const auto named = [](const char* id) {
    SandboxRecord record = sandbox(id);
    record.metadata = api::Metadata{{"name", "web"}};
    return record;
  };
  // One after the other or in one commit: it is the writer's decision.
  net::io_context io(1);
  auto first = net::co_spawn(io, store_->create(named("a"), {}, true), net::use_future);
  auto second = net::co_spawn(io, store_->create(named("b"), {}, true), net::use_future);
  io.run();
  const auto won = first.get();
  const auto lost = second.get();
  ASSERT_TRUE(won) << won.error().message;
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, Code::Conflict);
  EXPECT_EQ(lost.error().reason, "SANDBOX::NAME_IN_USE");
  EXPECT_EQ(lost.error().message, "the name 'web' is in use by sandbox a");
  EXPECT_TRUE(await(store_->create(named("c"), {}))) << "names are metadata";
  for (const char* id : {"a", "c"}) {
    EXPECT_FALSE(await(store_->create(named("d"), {}, true)));
    ASSERT_TRUE(store_->change_status(id, {}, {std::string(api::state::kTerminated), "", "", at(1)}));
  }
  EXPECT_TRUE(await(store_->create(named("d"), {}, true))) << "the others have ended";
}

TEST_F(SqliteStoreTest, OldKeysGoWhenNewOnesCome) {
  ASSERT_TRUE(await(store_->create(sandbox("a", at(0)), IdempotencyKey{"old", "f", ""})));
  ASSERT_TRUE(await(store_->create(sandbox("b", at(90000)), IdempotencyKey{"new", "f", ""})));
  reopen();
  EXPECT_FALSE(*store_->find_key("old", "f", at(1))) << "not even for a caller whose clock is behind";
  EXPECT_TRUE(*store_->find_key("new", "f", at(90000)));
}

TEST_F(SqliteStoreTest, ListsNewestFirstFilteredAndInPages) {
  for (int i = 0; i < 25; ++i) {
    SandboxRecord record = sandbox("s" + std::to_string(100 + i), at(i / 2));
    if (i % 2 == 0) record.metadata = api::Metadata{{"team", "a"}, {"stage", i < 10 ? "dev" : "prod"}};
    if (i == 24) (*record.metadata)["name"] = "s10";
    create(record);
  }
  const auto ids = [&](const api::SandboxQuery& query) {
    std::vector<std::string> out;
    for (const SandboxPtr& record : store_->list(query, Scope::all()).items) out.push_back(record->id);
    return out;
  };
  EXPECT_EQ(ids({.paging = {1, 3}}), (std::vector<std::string>{"s124", "s123", "s122"}));
  EXPECT_EQ(ids({.paging = {9, 3}}), (std::vector<std::string>{"s100"}));
  EXPECT_EQ(ids({.paging = {10, 3}}), std::vector<std::string>());
  EXPECT_EQ(store_->list({.paging = {10, 3}}, Scope::all()).total, 25);
  EXPECT_EQ(ids({.metadata = {{"team", "a"}, {"stage", "dev"}}}).size(), 5u);
  EXPECT_EQ(store_->list({.metadata = {{"team", "a"}}, .paging = {1, 1}}, Scope::all()).total, 13);
  EXPECT_EQ(ids({.metadata = {{"team", "A"}}}), std::vector<std::string>());
  EXPECT_EQ(ids({.match = "s12"}).size(), 5u);
  EXPECT_EQ(store_->list({.match = "s10"}, Scope::all()).total, 11) << "ten ids and a name";
  EXPECT_EQ(ids({.match = "10"}), std::vector<std::string>());
  ASSERT_TRUE(store_->change_status("s110", {}, {"Running", "", "", at(50)}));
  EXPECT_EQ(ids({.states = {"running"}}), (std::vector<std::string>{"s110"}));
  EXPECT_EQ(store_->list({.states = {"running", "pending"}}, Scope::all()).total, 25);
}

TEST_F(SqliteStoreTest, AMetadataPatchIsSeenByFiltersAtOnceAndSurvives) {
  create(sandbox("a"));
  const auto patched = await(store_->patch_metadata("a", {{"x", "1"}, {"y", "2"}}));
  ASSERT_TRUE(patched) << patched.error().message;
  EXPECT_EQ((*patched)->metadata, (api::Metadata{{"x", "1"}, {"y", "2"}}));
  EXPECT_EQ(store_->list({.metadata = {{"x", "1"}}}, Scope::all()).total, 1);
  ASSERT_TRUE(await(store_->patch_metadata("a", {{"x", std::nullopt}, {"never", std::nullopt}})));
  reopen();
  EXPECT_EQ(store_->find("a")->metadata, (api::Metadata{{"y", "2"}}));
  EXPECT_EQ(await(store_->patch_metadata("b", {})).error().code, Code::NotFound);
}

TEST_F(SqliteStoreTest, RenewingMovesTheDeadlineEitherWay) {
  create(sandbox("a", at(0), at(100)));
  for (const int until : {500, 50}) {
    const auto renewed = await(store_->renew("a", at(until), at(10)));
    ASSERT_TRUE(renewed) << renewed.error().message;
    EXPECT_EQ((*renewed)->expires_at, at(until));
    EXPECT_EQ(store_->next_deadline(), at(until));
  }
  reopen();
  EXPECT_EQ(store_->find("a")->expires_at, at(50));
  create(sandbox("manual"));
  EXPECT_EQ(await(store_->renew("manual", at(99), at(10))).error().code, Code::Conflict);
  EXPECT_EQ(await(store_->renew("unknown", at(99), at(10))).error().code, Code::NotFound);
}

TEST_F(SqliteStoreTest, AccessNeverShortensADeadline) {
  SandboxRecord record = sandbox("a", at(0), at(1000));
  record.access_renew = seconds(300);
  create(record);
  create(sandbox("not-asked-for", at(0), at(1000)));
  create(sandbox("manual"));
  EXPECT_EQ((*await(store_->extend("a", at(10))))->expires_at, at(1000));
  EXPECT_EQ((*await(store_->extend("a", at(900))))->expires_at, at(1200));
  EXPECT_EQ((*await(store_->extend("not-asked-for", at(900))))->expires_at, at(1000));
  EXPECT_EQ((*await(store_->extend("manual", at(900))))->expires_at, std::nullopt);
  EXPECT_EQ(await(store_->extend("a", at(1200))).error().code, Code::NotFound);
}

TEST_F(SqliteStoreTest, ExpiryTakesOnlyWhatIsDue) {
  create(sandbox("a", at(0), at(100)));
  create(sandbox("b", at(0), at(50)));
  create(sandbox("manual"));
  EXPECT_EQ(store_->next_deadline(), at(50));
  EXPECT_EQ(store_->due(at(49)).size(), 0u);
  EXPECT_EQ(store_->due(at(100)).size(), 2u);
  EXPECT_EQ(store_->due(at(100)).front()->id, "b");
  EXPECT_FALSE(*await(store_->expire_if_due("a", at(99)))) << "never early";
  EXPECT_TRUE(*await(store_->expire_if_due("a", at(100))));
  EXPECT_FALSE(*await(store_->expire_if_due("a", at(100)))) << "one winner";
  EXPECT_FALSE(*await(store_->expire_if_due("manual", at(100))));
  EXPECT_FALSE(store_->find("a"));
  EXPECT_EQ(await(store_->renew("a", at(500), at(99))).error().code, Code::NotFound);
  EXPECT_EQ(await(store_->renew("b", at(500), at(60))).error().code, Code::NotFound) << "its end is certain";
}

TEST_F(SqliteStoreTest, OfARenewalAndAnExpiryAtOnceExactlyOneWins) {
  net::io_context io(1);
  for (int i = 0; i < 50; ++i) {
    const std::string id = "r" + std::to_string(i);
    create(sandbox(id, at(0), at(100)));
    // The renewal was asked for just before the deadline, the timer fired at it; either may come first.
    std::future<Result<SandboxPtr>> renewal;
    if (i % 2 == 0) renewal = net::co_spawn(io, store_->renew(id, at(500), at(99)), net::use_future);
    auto expiry = net::co_spawn(io, store_->expire_if_due(id, at(100)), net::use_future);
    if (i % 2 == 1) renewal = net::co_spawn(io, store_->renew(id, at(500), at(99)), net::use_future);
    io.restart();
    io.run();
    const bool renewed = renewal.get().has_value();
    const bool expired = expiry.get()->has_value();
    EXPECT_EQ(renewed, i % 2 == 0) << "the first one wins";
    EXPECT_NE(renewed, expired) << i;
    EXPECT_EQ(store_->find(id) != nullptr, renewed);
  }
}

TEST_F(SqliteStoreTest, ARemovalIsRememberedUntilItIsForgotten) {
  create(sandbox("a", at(0), at(100)));
  create(sandbox("b"));
  ASSERT_TRUE(await(store_->begin_remove("a")));
  EXPECT_EQ(await(store_->begin_remove("a")).error().code, Code::NotFound);
  EXPECT_FALSE(store_->find("a"));
  EXPECT_EQ(store_->next_deadline(), std::nullopt);
  reopen();
  EXPECT_FALSE(store_->find("a"));
  EXPECT_EQ(store_->removals(), (std::vector<std::string>{"a"}));
  store_->forget("a");
  store_->forget("b");  // not a removal: nothing happens
  EXPECT_TRUE(store_->removals().empty());
  reopen();
  EXPECT_TRUE(store_->removals().empty());
  EXPECT_TRUE(store_->find("b"));
}

TEST_F(SqliteStoreTest, StatusChangesByCompareAndSet) {
  create(sandbox("a"));
  const api::Status running{"Running", "CONTAINER_RUNNING", "", at(1)};
  ASSERT_TRUE(store_->change_status("a", {"Pending"}, running));
  EXPECT_EQ(store_->find("a")->status, running);
  const auto lost = store_->change_status("a", {"Pending", "Paused"}, {"Failed", "", "", at(2)});
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, Code::Conflict);
  EXPECT_EQ(lost.error().message, "the sandbox is Running");
  EXPECT_EQ(store_->change_status("b", {}, running).error().code, Code::NotFound);
  ASSERT_TRUE(await(store_->flush()));
  reopen();
  EXPECT_EQ(store_->find("a")->status, running);
}

TEST_F(SqliteStoreTest, AStatusIsNotUndoneByAChangeThatWasDecidedBefore) {
  create(sandbox("a", at(0), at(100)));
  net::io_context io(1);
  for (int i = 0; i < 100; ++i) {
    auto renewal = net::co_spawn(io, store_->renew("a", at(200 + i), at(1)), net::use_future);
    io.restart();
    io.poll_one();  // the renewal is on its way
    const api::Status status{"Running", std::to_string(i), "", at(i)};
    ASSERT_TRUE(store_->change_status("a", {}, status));
    io.run();
    ASSERT_TRUE(renewal.get());
    EXPECT_EQ(store_->find("a")->status, status);
    EXPECT_EQ(store_->find("a")->expires_at, at(200 + i));
  }
  reopen();
  EXPECT_EQ(store_->find("a")->status.reason, "99");
}

TEST_F(SqliteStoreTest, SnapshotsChangeByCompareAndSetAndSurvive) {
  ASSERT_TRUE(await(store_->create_snapshot(snapshot("s1", "a", at(1)))));
  SnapshotRecord named = snapshot("s2", "b", at(2));
  named.name = "nightly";
  ASSERT_TRUE(await(store_->create_snapshot(named)));
  EXPECT_EQ(await(store_->create_snapshot(named)).error().code, Code::Conflict);
  const api::Status ready{"Ready", "snapshot_runtime_ready", "", at(3)};
  ASSERT_TRUE(await(store_->change_snapshot("s1", {"Creating"}, ready, R"({"image":"x"})")));
  const auto lost = await(store_->change_snapshot("s1", {"Creating"}, ready, {}));
  EXPECT_EQ(lost.error().code, Code::Conflict);
  EXPECT_EQ(lost.error().reason, "SNAPSHOT::INVALID_STATE");
  EXPECT_EQ(await(store_->change_snapshot("s9", {"Ready"}, ready, {})).error().reason, "SNAPSHOT::NOT_FOUND");
  reopen();
  const SnapshotPtr first = store_->find_snapshot("s1");
  ASSERT_TRUE(first);
  EXPECT_EQ(first->status, ready);
  EXPECT_EQ(first->restore_config, R"({"image":"x"})");
  EXPECT_EQ(first->created_at, at(1));
  EXPECT_EQ(store_->find_snapshot("s2")->name, "nightly");
  EXPECT_EQ(store_->list_snapshots({}, Scope::all()).items.front()->id, "s2");
  EXPECT_EQ(store_->list_snapshots({.sandbox_id = "a"}, Scope::all()).total, 1);
  EXPECT_EQ(store_->list_snapshots({.name = "nightly"}, Scope::all()).total, 1);
  EXPECT_EQ(store_->list_snapshots({.match = "nightly"}, Scope::all()).total, 1);
  EXPECT_EQ(store_->list_snapshots({.match = "s"}, Scope::all()).total, 2);
  EXPECT_EQ(store_->list_snapshots({.match = "night"}, Scope::all()).total, 0);
  EXPECT_EQ(store_->list_snapshots({.states = {"Ready"}}, Scope::all()).total, 1);
  EXPECT_EQ(store_->list_snapshots({.states = {"ready"}}, Scope::all()).total, 0);
  ASSERT_TRUE(await(store_->erase_snapshot("s1")));
  ASSERT_TRUE(await(store_->erase_snapshot("s1"))) << "gone is what was wanted";
  reopen();
  EXPECT_FALSE(store_->find_snapshot("s1"));
  EXPECT_EQ(store_->all_snapshots().size(), 1u);
}

TEST_F(SqliteStoreTest, ReadersSeeTheRecordsOfTheirTenant) {
  SandboxRecord red = sandbox("red-1", at(1));
  red.owner = {"red", "rita"};
  create(red);
  SandboxRecord blue = sandbox("blue-1", at(2));
  blue.owner = {"blue", "bert"};
  create(blue);
  SnapshotRecord copy = snapshot("s", "red-1");
  copy.owner = red.owner;
  ASSERT_TRUE(await(store_->create_snapshot(copy)));
  for (int round = 0; round < 2; ++round) {
    EXPECT_TRUE(store_->find("red-1", Scope::tenant("red")));
    EXPECT_FALSE(store_->find("red-1", Scope::tenant("blue")));
    EXPECT_TRUE(store_->find("red-1", Scope::all()));
    EXPECT_EQ(store_->list({}, Scope::tenant("red")).total, 1);
    EXPECT_EQ(store_->list({}, Scope::tenant("blue")).items.front()->owner, blue.owner);
    EXPECT_EQ(store_->list({}, Scope::all()).total, 2);
    EXPECT_TRUE(store_->find_snapshot("s", Scope::tenant("red")));
    EXPECT_FALSE(store_->find_snapshot("s", Scope::tenant("blue")));
    EXPECT_EQ(store_->list_snapshots({}, Scope::tenant("blue")).total, 0);
    EXPECT_EQ(store_->list_snapshots({}, Scope::tenant("red")).items.front()->owner, red.owner);
    reopen();
  }
}

}  // namespace
}  // namespace osb::server::testing
