#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "server/store/batch.h"
#include "server/store/schema.h"
#include "server/store/sqlite.h"

namespace osb::server {

// The one writer of a database. Takes everything that has queued up since the last commit into one transaction: while
// one fsync runs the next batch gathers, so under load many changes share the cost of one.
//
// A transaction that fails is tried again change by change, so that one change does not fail because of another: with
// the disk full a delete can still succeed.
class CommitThread {
 public:
  struct Change {
    // Looks at the batch, adds what it wants written and keeps its outcome. Runs on the thread, maybe more than once.
    std::move_only_function<void(Batch&)> decide;
    // Called once, on the thread, when the outcome is durable and visible; with the error when nothing was written.
    std::move_only_function<void(std::optional<Error>)> complete;
    bool flush = false;  // make lazy writes durable
    bool probe = false;  // write something even if there is nothing
  };

  CommitThread(std::unique_ptr<Database> database, RecordWriter writer, RecordIndex& index);
  // Commits what is queued and joins.
  ~CommitThread();
  CommitThread(const CommitThread&) = delete;
  CommitThread& operator=(const CommitThread&) = delete;

  void submit(Change change);
  // Written soon, without waiting for the disk: it survives this process at once, a power cut after the next commit.
  void write_status_soon(std::string id);
  void forget_soon(std::string id);

 private:
  // Writes that need not be durable at once.
  struct Lazy {
    std::set<std::string> statuses;
    std::set<std::string> forgotten;
    bool empty() const { return statuses.empty() && forgotten.empty(); }
  };

  void run();
  void commit_all(std::vector<Change> changes, Lazy lazy);
  Result<void> commit(std::span<Change> changes, const Lazy& lazy);
  Result<void> write(const Batch& batch, const Lazy& lazy, bool flush);
  Result<void> set_durable(bool durable);
  void checkpoint_if_worthwhile();

  std::unique_ptr<Database> database_;
  RecordWriter writer_;
  RecordIndex& index_;
  bool durable_ = true;    // what SQLite's synchronous setting is now
  bool unsynced_ = false;  // something was written without waiting for the disk

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Change> queue_;
  Lazy lazy_;
  bool lazy_ready_ = false;  // false after a failure: lazy writes then wait for the next change
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace osb::server
