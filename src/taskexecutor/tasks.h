#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "api/task_executor.h"
#include "async/blocking_pool.h"
#include "async/descriptor.h"
#include "async/net.h"
#include "async/task_group.h"
#include "async/timer.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/time.h"
#include "sys/cgroup.h"
#include "taskexecutor/launch.h"
#include "taskexecutor/task_directory.h"

namespace osb::taskexecutor {

struct TaskSettings {
  std::string data_dir;        // exists
  Environment env;             // that tasks inherit
  std::string main_container;  // not empty: tasks run in its namespaces
  const Clock* clock = &system_clock();
};

// The tasks of this executor, at most one of which is active: not ended and not marked for removal. Each has a watcher
// that waits for its end, its timeout and its removal; nothing looks from time to time. One loop.
class Tasks {
 public:
  // `pool` has one thread, so that the writes of a record keep their order.
  Tasks(net::any_io_executor executor, BlockingPool& pool, TaskSettings settings);

  // The tasks of an earlier executor. A task that did not reach its end in order is dropped, so that the controller
  // sends it again. Call it once, first.
  net::awaitable<Result<void>> recover();

  // Desired state: marks the tasks that are not listed for removal, then starts those that are new. Tasks that exist
  // stay as they are. The error is the first of several; the other tasks are dealt with all the same.
  net::awaitable<Result<void>> set(std::vector<api::Task> wanted);
  // Code::Conflict if there is such a task.
  net::awaitable<Result<api::Task>> add(api::Task task);
  // Marks it; it is gone when its processes are. An unknown name is success.
  net::awaitable<Result<void>> remove(std::string name);

  std::vector<api::Task> list() const;
  std::optional<api::Task> find(const std::string& name) const;

  // Changes with every change of a task. It begins at random: an executor that was replaced has another one.
  std::uint64_t version() const { return version_; }
  // Until the version is another one, or the time is up.
  net::awaitable<void> wait_change(std::uint64_t version, std::chrono::milliseconds limit);

  // Ends the watchers. Tasks go on.
  net::awaitable<void> close();

 private:
  struct Entry;
  using EntryPtr = std::shared_ptr<Entry>;

  // Held while a change is made; the next one waits for its turn.
  class Turn;
  net::awaitable<Result<std::unique_ptr<Turn>>> take_turn();
  bool any_active() const;
  net::awaitable<Result<void>> start(api::Task task);
  net::awaitable<Result<void>> mark_removed(EntryPtr entry);
  void watch(EntryPtr entry);
  net::awaitable<void> follow(EntryPtr entry);
  net::awaitable<void> look(Entry& entry);
  net::awaitable<void> wait_event(EntryPtr entry);
  void stop(Entry& entry);
  void changed();
  Timestamp now() const { return std::chrono::floor<Timestamp::duration>(settings_.clock->now()); }

  net::any_io_executor executor_;
  BlockingPool& pool_;
  TaskSettings settings_;
  std::optional<sys::CommandCgroups> cgroups_;
  std::map<std::string, EntryPtr, std::less<>> entries_;
  bool busy_ = false;  // somebody has the turn
  Notifier free_;
  std::uint64_t version_ = std::uint64_t{std::random_device()()} << 24;
  Notifier changed_;
  TaskGroup watchers_;
};

}  // namespace osb::taskexecutor
