#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "api/task_executor.h"
#include "base/error.h"
#include "base/time.h"
#include "base/unique_fd.h"

namespace osb::taskexecutor {

enum class TaskState { Pending, Running, Succeeded, Failed, Timeout };
std::string_view to_string(TaskState state);

struct TaskStatus {
  TaskState state = TaskState::Pending;
  int exit_code = 0;
  std::optional<Timestamp> started_at, finished_at;

  bool ended() const { return state != TaskState::Pending && state != TaskState::Running; }
  bool operator==(const TaskStatus&) const = default;
};

// task.json: one task as it is kept.
struct TaskRecord {
  std::string name;
  std::optional<Timestamp> deleted_at;  // marked for removal
  std::optional<api::TaskProcess> process;
  api::json::value pod_template;
  TaskStatus status;
};

std::string encode_record(const TaskRecord& record);
Result<TaskRecord> decode_record(std::string_view text);
// The task as the API shows it.
api::Task to_task(const TaskRecord& record);

// The supervisor of a task, so that a later executor finds it again. Pid and start time name a process of one boot.
struct SupervisorRecord {
  pid_t pid = 0;
  std::uint64_t start = 0;  // clock ticks since boot
  std::string boot_id;
  std::string cgroup;  // its directory; empty: none
};

// The files of one task: task.json, pid, supervisor.json, exit, stdout.log, stderr.log. All calls block.
class TaskDirectory {
 public:
  // Makes <data>/<name> with the record in it, in one step: a killed executor leaves all of it or nothing.
  // Code::Conflict if it is there, Code::InvalidRequest for a name that is no file name.
  static Result<TaskDirectory> create(const std::string& data, const TaskRecord& record);
  static Result<TaskDirectory> open(const std::string& data, const std::string& name);
  // Names of the tasks in `data`. Leftovers of creates and removals that were cut off are deleted.
  static Result<std::vector<std::string>> list(const std::string& data);

  const std::string& path() const { return path_; }
  int fd() const { return directory_.get(); }

  Result<TaskRecord> load() const;
  // Durable when it returns.
  Result<void> save(const TaskRecord& record) const;
  Result<void> save_supervisor(const SupervisorRecord& supervisor) const;
  std::optional<SupervisorRecord> supervisor() const;
  Result<UniqueFd> open_log(const std::string& name) const;

  // The state in the files. `alive`: the supervisor runs.
  TaskStatus inspect(bool alive) const;

  // It is gone in one step, then its files are deleted.
  Result<void> remove(const std::string& data) const;

 private:
  TaskDirectory(std::string path, UniqueFd directory) : path_(std::move(path)), directory_(std::move(directory)) {}

  std::string path_;
  UniqueFd directory_;
};

inline constexpr int kCrashExitCode = 137;

}  // namespace osb::taskexecutor
