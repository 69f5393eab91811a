#include "api/task_executor.h"

#include <chrono>

#include "api/json.h"

namespace osb::api {
namespace {

constexpr ReadOptions kReading{.ignore_case = true};

std::optional<Timestamp> read_time(ObjectReader& r, std::string_view name) {
  const auto text = r.optional_string(name);
  if (!text) return std::nullopt;
  const auto time = parse_timestamp(*text);
  if (time) return *time;
  r.reject(name, "expected an RFC 3339 time");
  return std::nullopt;
}

json::value copy(const json::value* value) { return value == nullptr ? json::value() : *value; }

TaskProcess read_process(ObjectReader& r) {
  TaskProcess out;
  out.command = r.string_list("command").value_or(std::vector<std::string>());
  out.args = r.string_list("args").value_or(std::vector<std::string>());
  r.array("env", [&](ObjectReader& variable) {
    out.env.push_back({variable.optional_string("name").value_or(""), variable.optional_string("value").value_or(""),
                       copy(variable.find("valueFrom"))});
  });
  out.working_dir = r.optional_string("workingDir").value_or("");
  out.timeout_seconds = r.optional_int64("timeoutSeconds");
  return out;
}

int read_exit_code(ObjectReader& r) {
  return static_cast<int>(r.optional_int64("exitCode", INT32_MIN, INT32_MAX).value_or(0));
}

Task read_task(ObjectReader& r) {
  Task out;
  out.name = r.optional_string("name").value_or("");
  r.object("process", [&](ObjectReader& process) { out.process = read_process(process); });
  out.pod_template = copy(r.find("podTemplateSpec"));
  r.object("processStatus", [&](ObjectReader& status) {
    status.object("waiting", [&](ObjectReader& w) {
      out.status = TaskWaiting{w.optional_string("reason").value_or(""), w.optional_string("message").value_or("")};
    });
    status.object("running", [&](ObjectReader& w) { out.status = TaskRunning{read_time(w, "startedAt")}; });
    status.object("terminated", [&](ObjectReader& w) {
      out.status = TaskTerminated{read_exit_code(w), w.optional_string("reason").value_or(""),
                                  w.optional_string("message").value_or(""), read_time(w, "startedAt"),
                                  read_time(w, "finishedAt")};
    });
  });
  return out;
}

void add_text(json::object& out, std::string_view key, const std::string& text) {
  if (!text.empty()) out[key] = text;
}

json::object status_json(const Task& task) {
  if (const auto* waiting = std::get_if<TaskWaiting>(&task.status)) {
    json::object out;
    add_text(out, "reason", waiting->reason);
    add_text(out, "message", waiting->message);
    return {{"waiting", std::move(out)}};
  }
  if (const auto* running = std::get_if<TaskRunning>(&task.status)) {
    return {{"running", {{"startedAt", task_time(running->started_at)}}}};
  }
  const auto& end = std::get<TaskTerminated>(task.status);
  json::object out{{"exitCode", end.exit_code}};
  add_text(out, "reason", end.reason);
  add_text(out, "message", end.message);
  out["startedAt"] = task_time(end.started_at);
  out["finishedAt"] = task_time(end.finished_at);
  return {{"terminated", std::move(out)}};
}

}  // namespace

Result<TaskProcess> parse_task_process(const json::value& value) {
  ObjectReader r(value, kReading);
  TaskProcess out = read_process(r);
  if (auto read = r.finish(); !read) return Failure(read.error());
  return out;
}

Result<Task> parse_task(const json::value& value) {
  ObjectReader r(value, kReading);
  Task out = read_task(r);
  if (auto read = r.finish(); !read) return Failure(read.error());
  return out;
}

Result<std::vector<Task>> parse_tasks(const json::value& value) {
  std::vector<Task> out;
  if (value.is_null()) return out;
  auto read = read_array(value, kReading, [&](ObjectReader& r) { out.push_back(read_task(r)); });
  if (!read) return Failure(read.error());
  return out;
}

json::value task_time(const std::optional<Timestamp>& time) {
  if (!time) return nullptr;
  return json::value(json::string(format_timestamp(std::chrono::floor<std::chrono::seconds>(*time))));
}

json::object to_json(const TaskProcess& process) {
  json::object out;
  out["command"] = json::array(process.command.begin(), process.command.end());
  if (!process.args.empty()) out["args"] = json::array(process.args.begin(), process.args.end());
  if (!process.env.empty()) {
    json::array env;
    for (const TaskVariable& variable : process.env) {
      json::object entry{{"name", variable.name}};
      add_text(entry, "value", variable.value);
      if (!variable.value_from.is_null()) entry["valueFrom"] = variable.value_from;
      env.push_back(std::move(entry));
    }
    out["env"] = std::move(env);
  }
  add_text(out, "workingDir", process.working_dir);
  if (process.timeout_seconds) out["timeoutSeconds"] = *process.timeout_seconds;
  return out;
}

json::object to_json(const Task& task) {
  json::object out{{"name", task.name}};
  if (task.process) out["process"] = to_json(*task.process);
  if (!task.pod_template.is_null()) out["podTemplateSpec"] = task.pod_template;
  if (!std::holds_alternative<std::monostate>(task.status)) out["processStatus"] = status_json(task);
  return out;
}

json::array to_json(const std::vector<Task>& tasks) {
  json::array out;
  for (const Task& task : tasks) out.push_back(to_json(task));
  return out;
}

}  // namespace osb::api
