#include <sqlite3.h>

#include <gtest/gtest.h>

#include "server/store/store_fixture.h"

namespace osb::server::testing {
namespace {

using osb::testing::TempDir;

// A file that a server with schema version 1 has written, as `sqlite3 store.db .dump` prints it: two sandboxes that
// run, one of them made with an Idempotency-Key, and a snapshot.
constexpr const char* kVersion1 = R"sql(
PRAGMA application_id = 1330856536;
PRAGMA user_version = 1;
BEGIN TRANSACTION;
CREATE TABLE flushes (id INTEGER PRIMARY KEY, count INTEGER NOT NULL);
CREATE TABLE idempotency_keys ( key TEXT PRIMARY KEY NOT NULL, fingerprint TEXT NOT NULL, sandbox_id TEXT NOT NULL, answer TEXT NOT NULL, created_at INTEGER NOT NULL);
INSERT INTO "idempotency_keys" VALUES('k-1','9af084180722c3f4a58532cfe54a647b46750f8796b35a704fc1b990f7d98467','e814fd5c-36d4-443b-b4df-b0bf3f6d14bd','{"id":"e814fd5c-36d4-443b-b4df-b0bf3f6d14bd","status":{"state":"Pending","reason":"CONTAINER_STARTING","message":"The sandbox is waiting to be created.","lastTransitionAt":"2026-11-16T10:21:31.919831Z"},"metadata":{"name":"first","team":"a"},"entrypoint":["sleep 1000"],"expiresAt":"2026-11-16T11:21:31.919831Z","createdAt":"2026-11-16T10:21:31.919831Z"}',1794824491919831);
CREATE TABLE sandboxes ( id TEXT PRIMARY KEY NOT NULL, spec TEXT NOT NULL, metadata TEXT, state TEXT NOT NULL, reason TEXT NOT NULL, message TEXT NOT NULL, last_transition_at INTEGER, created_at INTEGER NOT NULL, expires_at INTEGER, access_renew_seconds INTEGER, removing INTEGER NOT NULL DEFAULT 0);
INSERT INTO "sandboxes" VALUES('e814fd5c-36d4-443b-b4df-b0bf3f6d14bd','{"image":{"uri":"host"},"timeout":3600,"resourceLimits":{"cpu":"1","memory":"256Mi"},"env":{"A":"b"},"metadata":{"name":"first","team":"a"},"entrypoint":["sleep 1000"],"extensions":{"access.renew.extend.seconds":"600","mine":"x","opensandbox.io/execd-token":"6bfc5db099c5402b9f5fb8a0107f4b046fc25324683c404f8dcd8a2e1420805d"}}','{"name":"first","team":"a"}','Running','CONTAINER_RUNNING','The sandbox is running.',1794824491935751,1794824491919831,1794828091919831,600,0);
INSERT INTO "sandboxes" VALUES('2460d56d-9db8-4fac-90f7-8b3b613d2ce6','{"image":{"uri":"host"},"resourceLimits":{},"entrypoint":["sleep","1000"],"extensions":{"opensandbox.io/execd-token":"10fbc613c0b84c199d74dc2a232ed6b36d70bd106b3f4486977d1bfe381ca964"}}',NULL,'Running','CONTAINER_RUNNING','The sandbox is running.',1794824491957178,1794824491941213,NULL,NULL,0);
CREATE TABLE snapshots ( id TEXT PRIMARY KEY, source_sandbox_id TEXT NOT NULL, name TEXT, description TEXT, restore_config TEXT NOT NULL, state TEXT NOT NULL, reason TEXT, message TEXT, last_transition_at TEXT, created_at TEXT NOT NULL, updated_at TEXT NOT NULL);
INSERT INTO "snapshots" VALUES('5cc3eec0-a423-4652-9789-5dee88bf2d8e','2460d56d-9db8-4fac-90f7-8b3b613d2ce6','nightly',NULL,'{"image":"5cc3eec0-a423-4652-9789-5dee88bf2d8e"}','Ready','snapshot_runtime_ready','The snapshot is ready.','2026-11-16T10:21:32.006826Z','2026-11-16T10:21:31.960231Z','2026-11-16T10:21:32.006826Z');
CREATE INDEX idx_snapshots_source_sandbox_id ON snapshots (source_sandbox_id);
CREATE INDEX idx_snapshots_state ON snapshots (state);
CREATE INDEX idx_snapshots_created_at ON snapshots (created_at DESC);
COMMIT;
)sql";

constexpr const char* kFirst = "e814fd5c-36d4-443b-b4df-b0bf3f6d14bd";
constexpr const char* kSecond = "2460d56d-9db8-4fac-90f7-8b3b613d2ce6";

class StoreMigration : public ::testing::Test {
 protected:
  void SetUp() override {
    sqlite3* handle = nullptr;
    ASSERT_EQ(sqlite3_open(path().c_str(), &handle), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(handle, kVersion1, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(handle);
    sqlite3_close(handle);
  }
  std::unique_ptr<Store> open() {
    auto opened = open_sqlite_store({.path = path()});
    EXPECT_TRUE(opened) << opened.error().message;
    return opened ? std::move(*opened) : nullptr;
  }
  std::filesystem::path path() const { return directory_ / "store.db"; }

  TempDir directory_;
};

TEST_F(StoreMigration, ExecdsTokenMovesOutOfTheUsersExtensions) {
  for (int round = 0; round < 2; ++round) {  // the second one opens a file that was migrated
    const auto store = open();
    ASSERT_TRUE(store);
    const SandboxPtr first = store->find(kFirst);
    ASSERT_TRUE(first);
    EXPECT_EQ(first->execd_token, "6bfc5db099c5402b9f5fb8a0107f4b046fc25324683c404f8dcd8a2e1420805d");
    EXPECT_EQ(first->spec->extensions, (api::StringMap{{"access.renew.extend.seconds", "600"}, {"mine", "x"}}));
    const SandboxPtr second = store->find(kSecond);
    ASSERT_TRUE(second);
    EXPECT_EQ(second->execd_token, "10fbc613c0b84c199d74dc2a232ed6b36d70bd106b3f4486977d1bfe381ca964");
    EXPECT_TRUE(second->spec->extensions.empty());
  }
}

TEST_F(StoreMigration, ExistingRecordsBelongToTheAdministrator) {
  const auto store = open();
  ASSERT_TRUE(store);
  EXPECT_EQ(store->find(kFirst)->owner, (Owner{"default", "admin"}));
  EXPECT_EQ(store->all_snapshots().front()->owner, (Owner{"default", "admin"}));
  EXPECT_EQ(store->list({}, Scope::tenant("default")).total, 2);
  EXPECT_EQ(store->list({}, Scope::tenant("other")).total, 0);
}

TEST_F(StoreMigration, ExistingSandboxesHaveNoPolicyApi) {
  {
    const auto store = open();
    ASSERT_TRUE(store);
    EXPECT_EQ(store->find(kFirst)->egress_token, "");
  }
  // A file of the version before the token, with its column gone again.
  sqlite3* handle = nullptr;
  ASSERT_EQ(sqlite3_open(path().c_str(), &handle), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(
                handle, "DROP TABLE templates; ALTER TABLE sandboxes DROP COLUMN egress_token; PRAGMA user_version = 3",
                nullptr, nullptr, nullptr),
            SQLITE_OK)
      << sqlite3_errmsg(handle);
  sqlite3_close(handle);
  const auto store = open();
  ASSERT_TRUE(store);
  EXPECT_EQ(store->find(kFirst)->egress_token, "");
  EXPECT_EQ(store->find(kFirst)->execd_token, "6bfc5db099c5402b9f5fb8a0107f4b046fc25324683c404f8dcd8a2e1420805d");
}

TEST_F(StoreMigration, EverythingElseStaysAsItWas) {
  const auto store = open();
  ASSERT_TRUE(store);
  const SandboxPtr first = store->find(kFirst);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->spec->entrypoint, std::vector<std::string>{"sleep 1000"});
  EXPECT_EQ(first->metadata, (api::Metadata{{"name", "first"}, {"team", "a"}}));
  EXPECT_EQ(first->status.state, "Running");
  EXPECT_EQ(first->access_renew, std::chrono::seconds(600));
  EXPECT_EQ(format_timestamp(*first->expires_at), "2026-11-16T11:21:31.919831Z");
  const auto key =
      store->find_key("k-1", "9af084180722c3f4a58532cfe54a647b46750f8796b35a704fc1b990f7d98467", first->created_at);
  ASSERT_TRUE(key && *key);
  EXPECT_EQ((*key)->record, first);
  ASSERT_EQ(store->all_snapshots().size(), 1u);
  EXPECT_EQ(store->all_snapshots().front()->name, "nightly");
}

TEST_F(StoreMigration, ARecordThatCannotBeReadIsNamed) {
  sqlite3* handle = nullptr;
  ASSERT_EQ(sqlite3_open(path().c_str(), &handle), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(handle, "UPDATE sandboxes SET spec = '{'", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(handle);
  const auto opened = open_sqlite_store({.path = path()});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().reason, "GENERAL::STORE_CORRUPT");
}

}  // namespace
}  // namespace osb::server::testing
