#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <boost/json/value.hpp>

#include "base/error.h"
#include "base/time.h"

namespace osb::api {

namespace json = boost::json;

// The messages between the controller and the task-executor of a pod.

// Of every list of tasks: a number that changes with them. GET /getTasks?after=VERSION waits for another one.
inline constexpr std::string_view kTasksVersionHeader = "X-Tasks-Version";

struct TaskVariable {
  std::string name;
  std::string value;
  json::value value_from;  // null: none. It is sent back as it came, and has no effect.
};

struct TaskProcess {
  std::vector<std::string> command;
  std::vector<std::string> args;
  std::vector<TaskVariable> env;
  std::string working_dir;  // empty: that of the executor
  std::optional<std::int64_t> timeout_seconds;
};

struct TaskWaiting {
  std::string reason, message;
};
struct TaskRunning {
  std::optional<Timestamp> started_at;
};
struct TaskTerminated {
  int exit_code = 0;
  std::string reason, message;
  std::optional<Timestamp> started_at, finished_at;
};

struct Task {
  std::string name;
  std::optional<TaskProcess> process;
  json::value pod_template;  // podTemplateSpec; null: none
  std::variant<std::monostate, TaskWaiting, TaskRunning, TaskTerminated> status;
};

// One task, and a list of them, in which null means none. Unknown fields are ignored, and keys may be in any case, as
// the original decoder has it. An error names the field by its JSON pointer.
Result<Task> parse_task(const json::value& value);
Result<std::vector<Task>> parse_tasks(const json::value& value);
Result<TaskProcess> parse_task_process(const json::value& value);

// Times have whole seconds.
json::object to_json(const Task& task);
json::array to_json(const std::vector<Task>& tasks);
json::object to_json(const TaskProcess& process);
// A time of these messages; null when it is not set.
json::value task_time(const std::optional<Timestamp>& time);

}  // namespace osb::api
