#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "async/net.h"
#include "async/task_group.h"
#include "async/timer.h"
#include "controller/sandbox/tasks.h"
#include "kubernetes/object.h"
#include "kubernetes/pacing.h"

namespace osb::controller {

using kubernetes::Key;

// Calls for another look at a sandbox when the tasks of one of its pods have changed. One loop.
class TaskWatches {
 public:
  using Changed = std::function<void(const Key& sandbox)>;
  // All outlive it.
  TaskWatches(net::any_io_executor executor, TaskExecutors& executors, kubernetes::Sleep sleep, Changed changed);

  // Calls once, when the tasks of the pod at `address` differ from this answer. An executor that does not answer is
  // asked again after a growing pause; one that cannot tell changes (an older one) after three seconds.
  void follow(const Key& sandbox, const std::string& address, const Result<TaskList>& answer);

  // The sandbox is gone.
  void forget(const Key& sandbox);

  // Until it is cancelled; no call comes afterwards. Once.
  net::awaitable<void> run();

 private:
  using Place = std::pair<Key, std::string>;
  net::awaitable<void> watch(Place place, std::uint64_t version);
  net::awaitable<void> pause(Place place, std::chrono::milliseconds time);
  void over(const Place& place);

  TaskExecutors& executors_;
  kubernetes::Sleep sleep_;
  Changed changed_;
  Notifier ended_;
  std::set<Place> waiting_;  // at most one for each pod
  std::map<Place, kubernetes::JitteredBackoff> pauses_;
  TaskGroup tasks_;
};

}  // namespace osb::controller
