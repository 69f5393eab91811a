#include "server/store/commit_thread.h"

#include <future>

#include "server/store/store_fixture.h"

namespace osb::server::testing {
namespace {

class CommitThreadTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto database = Database::open(directory_ / "store.db", std::chrono::seconds(5));
    ASSERT_TRUE(database) << database.error().message;
    ASSERT_TRUE(prepare_schema(**database));
    auto writer = RecordWriter::prepare(**database);
    ASSERT_TRUE(writer) << writer.error().message;
    commits_ = std::make_unique<CommitThread>(std::move(*database), std::move(*writer), index_);
  }

  osb::testing::TempDir directory_;
  RecordIndex index_;
  std::unique_ptr<CommitThread> commits_;
};

TEST_F(CommitThreadTest, ChangesQueuedDuringOneCommitShareTheNext) {
  std::promise<void> started, go_on;
  commits_->submit({[&](Batch& batch) {
                      started.set_value();
                      go_on.get_future().wait();
                      batch.put(sandbox("first"));
                    },
                    [](std::optional<Error>) {}});
  started.get_future().wait();
  std::size_t together = 0;
  int completed = 0;
  std::promise<void> done;
  for (int i = 0; i < 20; ++i) {
    commits_->submit({[&, i](Batch& batch) {
                        EXPECT_FALSE(index_.find("s0")) << "a record is not visible before it is durable";
                        batch.put(sandbox("s" + std::to_string(i)));
                        together = batch.changes().sandboxes.size();
                      },
                      [&](std::optional<Error> error) {
                        EXPECT_FALSE(error);
                        EXPECT_TRUE(index_.find("s0"));
                        if (++completed == 20) done.set_value();
                      }});
  }
  go_on.set_value();
  done.get_future().wait();
  EXPECT_EQ(together, 20u);
  EXPECT_EQ(index_.size(), 21u);
}

TEST_F(CommitThreadTest, ChangesOfOneTransactionSeeEachOther) {
  std::promise<void> started, go_on, done;
  commits_->submit({[&](Batch&) {
                      started.set_value();
                      go_on.get_future().wait();
                    },
                    [](std::optional<Error>) {}});
  started.get_future().wait();
  Result<Store::Created> first = fail(Code::Internal, ""), second = fail(Code::Internal, "");
  const IdempotencyKey key{"k", "f", "answer"};
  commits_->submit({[&](Batch& batch) { first = decide::create(batch, sandbox("a"), key); }, [](auto) {}});
  commits_->submit(
      {[&](Batch& batch) { second = decide::create(batch, sandbox("b"), key); }, [&](auto) { done.set_value(); }});
  go_on.set_value();
  done.get_future().wait();
  ASSERT_TRUE(first && second);
  EXPECT_TRUE(first->fresh);
  EXPECT_FALSE(second->fresh);
  EXPECT_EQ(second->id, "a");
  EXPECT_FALSE(index_.find("b"));
}

TEST_F(CommitThreadTest, ChangesQueuedAtTheEndAreStillCommitted) {
  int completed = 0;
  for (int i = 0; i < 10; ++i) {
    commits_->submit({[i](Batch& batch) { batch.put(sandbox(std::to_string(i))); },
                      [&](std::optional<Error> error) { completed += error ? 0 : 1; }});
  }
  commits_.reset();
  EXPECT_EQ(completed, 10);
  const auto again = open_sqlite_store({.path = directory_ / "store.db"});
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ((*again)->size(), 10u);
}

}  // namespace
}  // namespace osb::server::testing
