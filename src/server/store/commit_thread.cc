#include "server/store/commit_thread.h"

#include <algorithm>
#include <signal.h>
#include <utility>

#include "base/log.h"

namespace osb::server {
namespace {

// The log is copied into the file when no change waits and it has grown to 4 MiB, or at 32 MiB in any case.
constexpr int kCheckpointPages = 1000;
constexpr int kCheckpointPagesUnderLoad = 8000;

}  // namespace

CommitThread::CommitThread(std::unique_ptr<Database> database, RecordWriter writer, RecordIndex& index)
    : database_(std::move(database)), writer_(std::move(writer)), index_(index) {
  // Signals are the loop's business.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

CommitThread::~CommitThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void CommitThread::submit(Change change) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(change));
  }
  wake_.notify_one();
}

void CommitThread::write_status_soon(std::string id) {
  {
    const std::lock_guard lock(mutex_);
    lazy_.statuses.insert(std::move(id));
    lazy_ready_ = true;
  }
  wake_.notify_one();
}

void CommitThread::forget_soon(std::string id) {
  {
    const std::lock_guard lock(mutex_);
    lazy_.forgotten.insert(std::move(id));
    lazy_ready_ = true;
  }
  wake_.notify_one();
}

void CommitThread::run() {
  for (;;) {
    std::vector<Change> changes;
    Lazy lazy;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || !queue_.empty() || lazy_ready_; });
      if (queue_.empty() && !lazy_ready_) return;
      changes = std::exchange(queue_, {});
      lazy = std::exchange(lazy_, {});
      lazy_ready_ = false;
    }
    commit_all(std::move(changes), std::move(lazy));
    checkpoint_if_worthwhile();
  }
}

void CommitThread::commit_all(std::vector<Change> changes, Lazy lazy) {
  if (const auto done = commit(changes, lazy); !done) {
    log_error("store commit failed", {{"changes", changes.size()}, {"error", done.error().message}});
    if (changes.size() == 1 && lazy.empty()) {
      changes.front().complete(done.error());
      return;
    }
    for (Change& change : changes) {
      // A flush that left the lazy writes out would promise what it did not do.
      const auto alone = commit(std::span(&change, 1), change.flush ? lazy : Lazy());
      change.complete(alone ? std::nullopt : std::optional(alone.error()));
    }
    if (!commit({}, lazy)) {
      const std::lock_guard lock(mutex_);
      lazy_.statuses.merge(lazy.statuses);
      lazy_.forgotten.merge(lazy.forgotten);
    }
    return;
  }
  for (Change& change : changes) change.complete(std::nullopt);
}

Result<void> CommitThread::commit(std::span<Change> changes, const Lazy& lazy) {
  Batch batch(index_);
  for (Change& change : changes) change.decide(batch);
  const bool probe = std::ranges::any_of(changes, &Change::probe);
  const bool flush = probe || std::ranges::any_of(changes, &Change::flush);
  if (batch.empty() && lazy.empty() && !(flush && unsynced_) && !probe) return {};
  const bool durable = flush || !batch.empty();
  if (auto set = set_durable(durable); !set) return set;
  if (auto begun = database_->execute("BEGIN IMMEDIATE"); !begun) return begun;
  auto done = write(batch, lazy, flush);
  if (done) done = database_->execute("COMMIT");
  if (!done) {
    database_->rollback();
    return done;
  }
  unsynced_ = !durable;
  index_.apply(batch.changes());
  return {};
}

Result<void> CommitThread::write(const Batch& batch, const Lazy& lazy, bool flush) {
  if (auto done = writer_.write(batch.changes()); !done) return done;
  for (const std::string& id : lazy.statuses) {
    const SandboxPtr record = index_.find(id);
    if (!record) continue;
    if (auto done = writer_.write_status(*record); !done) return done;
  }
  for (const std::string& id : lazy.forgotten) {
    if (auto done = writer_.forget(id); !done) return done;
  }
  // A transaction that changes no page is not synced.
  return flush ? writer_.touch() : Result<void>();
}

// NORMAL writes the log without waiting for the disk; a commit with FULL syncs the whole log, what came before
// included.
Result<void> CommitThread::set_durable(bool durable) {
  if (durable == durable_) return {};
  auto set = database_->execute(durable ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL");
  if (set) durable_ = durable;
  return set;
}

void CommitThread::checkpoint_if_worthwhile() {
  const int pages = database_->wal_pages();
  if (pages < kCheckpointPages) return;
  if (pages < kCheckpointPagesUnderLoad) {
    const std::lock_guard lock(mutex_);
    if (!queue_.empty()) return;
  }
  database_->checkpoint();
}

}  // namespace osb::server
