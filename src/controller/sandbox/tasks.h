#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "api/task_executor.h"
#include "async/net.h"
#include "base/error.h"
#include "controller/model/batch_sandbox.h"
#include "controller/model/pod_facts.h"
#include "controller/sandbox/sandbox_status.h"
#include "http/client.h"

namespace osb::controller {

// The tasks of one executor, and the number that changes with them; older executors have none.
struct TaskList {
  std::vector<api::Task> tasks;
  std::optional<std::uint64_t> version;
};

// The task-executors of pods, by address.
class TaskExecutors {
 public:
  virtual ~TaskExecutors() = default;
  virtual net::awaitable<Result<TaskList>> get(std::string address) = 0;
  // Tasks that are not in the list are ended; the answer has those that are still there.
  virtual net::awaitable<Result<TaskList>> set(std::string address, std::vector<api::Task> tasks) = 0;
  // Answers when the version is another one, or after the executor's longest time with the same one.
  virtual net::awaitable<Result<TaskList>> wait_change(std::string address, std::uint64_t version) = 0;
};

// Over HTTP, port 5758 of each pod.
class HttpTaskExecutors final : public TaskExecutors {
 public:
  HttpTaskExecutors() : client_(http::make_plain_connector()) {}
  net::awaitable<Result<TaskList>> get(std::string address) override;
  net::awaitable<Result<TaskList>> set(std::string address, std::vector<api::Task> tasks) override;
  net::awaitable<Result<TaskList>> wait_change(std::string address, std::uint64_t version) override;

 private:
  net::awaitable<Result<TaskList>> call(std::string address, http::ClientRequest request,
                                        std::chrono::milliseconds limit);
  http::Client client_;
};

// Task `index` of a sandbox: the template with the patch of that index. An error names the field.
Result<api::Task> task_of(const BatchSandbox& sandbox, int index);

// Told of the answer of each pod whose tasks go on.
using FollowTasks = std::function<void(const std::string& address, const Result<TaskList>& answer)>;

// Tasks of a sandbox after one round of questions. Task i belongs to the pod of replica i, so that a new controller
// comes to the same answer.
struct TaskRound {
  TaskCounts counts;
  std::vector<std::string> finished;  // pods whose task has ended
  std::optional<Error> problem;       // of the template
};
net::awaitable<TaskRound> run_tasks(TaskExecutors& executors, const BatchSandbox& sandbox,
                                    const std::vector<PodFacts>& pods, const FollowTasks& follow);

// Asks the pods to end their tasks. Returns those that have none left; a pod that cannot be reached has none.
net::awaitable<std::vector<std::string>> stop_tasks(TaskExecutors& executors, const std::vector<PodFacts>& pods,
                                                    const FollowTasks& follow);

}  // namespace osb::controller
