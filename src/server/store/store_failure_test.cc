// A store on a file system or a file with errors. Mounts are made in a child process with a mount namespace of its own,
// so nothing is left behind in any case.

#include <fcntl.h>
#include <fstream>
#include <sched.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/store/sqlite_store.h"
#include "server/store/store_fixture.h"

namespace osb::server::testing {
namespace {

using osb::testing::await;
using osb::testing::TempDir;

// Runs `body` in a child that may mount what it likes; its failed expectations are this test's.
template <typename Body>
void with_private_mounts(Body body) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to mount";
  const pid_t pid = ::fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) ::_exit(2);
    body();
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0) << "see above";
}

void expect_refused(const std::filesystem::path& path, std::string_view reason) {
  const auto opened = open_sqlite_store({.path = path, .busy_wait = std::chrono::milliseconds(0)});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().reason, reason) << opened.error().message;
  EXPECT_NE(opened.error().message.find(path.string()), std::string::npos) << opened.error().message;
}

void execute(const std::filesystem::path& path, const char* sql) {
  sqlite3* handle = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &handle), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(handle, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(handle);
  sqlite3_close(handle);
}

TEST(StoreFailure, AReadOnlyDirectoryIsRefusedAtStart) {
  with_private_mounts([] {
    const TempDir directory;
    ASSERT_EQ(::mount("none", directory.path().c_str(), "tmpfs", 0, "size=1m"), 0);
    {
      ASSERT_TRUE(open_sqlite_store({.path = directory / "store.db"}));
    }
    ASSERT_EQ(::mount(nullptr, directory.path().c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr), 0);
    expect_refused(directory / "store.db", "GENERAL::STORE_READ_ONLY");
    expect_refused(directory / "new" / "store.db", "GENERAL::STORE_READ_ONLY");
    ::umount2(directory.path().c_str(), MNT_DETACH);
  });
}

TEST(StoreFailure, ADirectoryWithoutRoomIsRefusedAtStart) {
  with_private_mounts([] {
    const TempDir directory;
    ASSERT_EQ(::mount("none", directory.path().c_str(), "tmpfs", 0, "size=64k"), 0);
    std::ofstream(directory / "filler") << std::string(1 << 20, 'x');
    expect_refused(directory / "store.db", "GENERAL::STORE_FULL");
    ::umount2(directory.path().c_str(), MNT_DETACH);
  });
}

TEST(StoreFailure, WhenTheDiskIsFullAChangeFailsWholeAndOthersGoOn) {
  with_private_mounts([] {
    const TempDir directory;
    ASSERT_EQ(::mount("none", directory.path().c_str(), "tmpfs", 0, "size=1m"), 0);
    std::size_t accepted = 0;
    {
      auto opened = open_sqlite_store({.path = directory / "store.db"});
      ASSERT_TRUE(opened) << opened.error().message;
      Store& store = **opened;
      Error error;
      for (int i = 0; i < 10'000; ++i) {
        SandboxRecord record = sandbox("s" + std::to_string(i));
        record.metadata = api::Metadata{{"k", std::string(4000, 'x')}};
        const auto created = await(store.create(record, IdempotencyKey{record.id, "f", ""}));
        if (!created) {
          error = created.error();
          break;
        }
        ++accepted;
      }
      EXPECT_GT(accepted, 10u);
      EXPECT_EQ(error.reason, "GENERAL::STORE_FULL") << error.message;
      EXPECT_EQ(error.code, Code::Internal);
      EXPECT_EQ(store.size(), accepted) << "nothing of what failed can be seen";
      EXPECT_FALSE(*store.find_key("s" + std::to_string(accepted), "f", at(0)));
      EXPECT_TRUE(store.find("s0")) << "reads go on";
      // With room again it goes on as if nothing had been.
      ASSERT_EQ(::mount(nullptr, directory.path().c_str(), nullptr, MS_REMOUNT, "size=8m"), 0);
      const auto again = await(store.create(sandbox("later"), {}));
      EXPECT_TRUE(again) << again.error().message;
    }
    const auto reopened = open_sqlite_store({.path = directory / "store.db"});
    ASSERT_TRUE(reopened) << reopened.error().message;
    EXPECT_EQ((*reopened)->size(), accepted + 1);
    EXPECT_TRUE((*reopened)->find("later"));
    ::umount2(directory.path().c_str(), MNT_DETACH);
  });
}

TEST(StoreFailure, AFlushThatCannotWriteTheStatusSaysSo) {
  with_private_mounts([] {
    const TempDir directory;
    ASSERT_EQ(::mount("none", directory.path().c_str(), "tmpfs", 0, "size=1m"), 0);
    auto opened = open_sqlite_store({.path = directory / "store.db"});
    ASSERT_TRUE(opened) << opened.error().message;
    Store& store = **opened;
    ASSERT_TRUE(await(store.create(sandbox("a"), {})));
    std::ofstream(directory / "filler") << std::string(2 << 20, 'x');
    const api::Status failed{"Failed", "REASON", std::string(100'000, 'x'), at(1)};
    ASSERT_TRUE(store.change_status("a", {}, failed));
    EXPECT_FALSE(await(store.flush()));
    std::filesystem::remove(directory / "filler");
    const auto flushed = await(store.flush());
    EXPECT_TRUE(flushed) << flushed.error().message;
    opened->reset();
    const auto reopened = open_sqlite_store({.path = directory / "store.db"});
    ASSERT_TRUE(reopened) << reopened.error().message;
    EXPECT_EQ((*reopened)->find("a")->status, failed) << "kept for the next commit";
    ::umount2(directory.path().c_str(), MNT_DETACH);
  });
}

TEST(StoreFailure, AFileThatIsNoDatabaseIsRefusedAndLeftAlone) {
  const TempDir directory;
  const std::string content = std::string(5000, 'n') + "o database";
  std::ofstream(directory / "store.db") << content;
  expect_refused(directory / "store.db", "GENERAL::STORE_CORRUPT");
  std::ifstream file(directory / "store.db");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), content);
}

TEST(StoreFailure, ADamagedDatabaseIsRefused) {
  const TempDir directory;
  {
    auto opened = open_sqlite_store({.path = directory / "store.db"});
    ASSERT_TRUE(opened);
    for (int i = 0; i < 100; ++i) {
      SandboxRecord record = sandbox("s" + std::to_string(i));
      record.metadata = api::Metadata{{"k", std::string(1000, 'x')}};
      ASSERT_TRUE(await((*opened)->create(record, {})));
    }
  }
  const auto size = std::filesystem::file_size(directory / "store.db");
  ASSERT_GT(size, 16 * 4096u);
  {
    std::fstream file(directory / "store.db", std::ios::in | std::ios::out | std::ios::binary);
    for (std::uintmax_t page = 8 * 4096; page < size; page += 4096) {
      file.seekp(static_cast<std::streamoff>(page));
      file << std::string(2000, '\xa5');
    }
  }
  expect_refused(directory / "store.db", "GENERAL::STORE_CORRUPT");
}

TEST(StoreFailure, ARecordThatCannotBeReadIsRefusedByName) {
  const TempDir directory;
  {
    auto opened = open_sqlite_store({.path = directory / "store.db"});
    ASSERT_TRUE(opened);
    ASSERT_TRUE(await((*opened)->create(sandbox("a-1"), {})));
  }
  execute(directory / "store.db", "UPDATE sandboxes SET spec = '{'");
  const auto opened = open_sqlite_store({.path = directory / "store.db"});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().reason, "GENERAL::STORE_CORRUPT");
  EXPECT_NE(opened.error().message.find("a-1"), std::string::npos) << opened.error().message;
}

TEST(StoreFailure, ASecondServerIsRefusedUntilTheFirstHasGone) {
  const TempDir directory;
  auto first = open_sqlite_store({.path = directory / "store.db"});
  ASSERT_TRUE(first);
  expect_refused(directory / "store.db", "GENERAL::STORE_IN_USE");
  first->reset();
  EXPECT_TRUE(open_sqlite_store({.path = directory / "store.db"}));
}

TEST(StoreFailure, AFileOfALaterVersionOrAnotherProgramIsRefused) {
  const TempDir directory;
  {
    ASSERT_TRUE(open_sqlite_store({.path = directory / "store.db"}));
  }
  execute(directory / "store.db", "PRAGMA user_version = 999");
  expect_refused(directory / "store.db", "GENERAL::STORE_TOO_NEW");
  execute(directory / "other.db", "PRAGMA application_id = 4711; CREATE TABLE t (x)");
  expect_refused(directory / "other.db", "GENERAL::STORE_CORRUPT");
}

TEST(StoreFailure, SnapshotsOfTheOriginalServerAreTakenOver) {
  const TempDir directory;
  execute(directory / "store.db", R"(
    CREATE TABLE snapshots (id TEXT PRIMARY KEY, source_sandbox_id TEXT NOT NULL, name TEXT, description TEXT,
      restore_config TEXT NOT NULL, state TEXT NOT NULL, reason TEXT, message TEXT, last_transition_at TEXT,
      created_at TEXT NOT NULL, updated_at TEXT NOT NULL);
    INSERT INTO snapshots VALUES ('s', 'box', NULL, NULL, '{"image": "opensandbox-snapshots:s"}', 'Ready',
      'snapshot_runtime_ready', NULL, '2025-01-02T03:04:06+00:00', '2025-01-02T03:04:05.120000+00:00', 'x');)");
  auto opened = open_sqlite_store({.path = directory / "store.db"});
  ASSERT_TRUE(opened) << opened.error().message;
  const SnapshotPtr found = (*opened)->find_snapshot("s");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->sandbox_id, "box");
  EXPECT_EQ(found->restore_config, R"({"image": "opensandbox-snapshots:s"})");
  EXPECT_EQ(format_timestamp(found->created_at), "2025-01-02T03:04:05.120000Z");
  EXPECT_TRUE(await((*opened)->create(sandbox("a"), {})));
}

}  // namespace
}  // namespace osb::server::testing
