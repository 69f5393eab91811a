#include "taskexecutor/task_directory.h"

#include <cstdio>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json/serialize.hpp>

#include "api/json.h"
#include "base/json_escape.h"
#include "base/log.h"
#include "base/parse_number.h"
#include "sys/remove_tree.h"
#include "sys/replace_file.h"
#include "sys/staged_file.h"
#include "sys/syscall.h"
#include "sys/text_file.h"

namespace osb::taskexecutor {

namespace json = api::json;

namespace {

constexpr std::string_view kStates[] = {"Pending", "Running", "Succeeded", "Failed", "Timeout"};
constexpr std::size_t kMaxRecord = 4 << 20;
constexpr std::size_t kMaxName = 200;
constexpr std::string_view kHidden = ".osb-";  // hidden_name()

bool is_file_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxName && name[0] != '.' && !name.contains('/') && !name.contains('\0');
}

std::string_view reason_of(const TaskStatus& status) {
  switch (status.state) {
    case TaskState::Pending:
      return "Pending";
    case TaskState::Running:
      return "";
    case TaskState::Succeeded:
      return "Succeeded";
    case TaskState::Timeout:
      return "TaskTimeout";
    case TaskState::Failed:
      break;
  }
  // Without a record of its end the process has crashed, and only its start is known.
  return status.exit_code == kCrashExitCode && status.finished_at == status.started_at ? "ProcessCrashed" : "Failed";
}

Timestamp from_timespec(const timespec& time) {
  return Timestamp(std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::seconds(time.tv_sec) +
                                                                         std::chrono::nanoseconds(time.tv_nsec)));
}

std::optional<Timestamp> modified(int directory, const char* name) {
  struct stat st{};
  if (::fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW) < 0) return std::nullopt;
  return from_timespec(st.st_mtim);
}

Result<std::string> read_at(int directory, const std::string& name) {
  auto file = sys::open_at(directory, name, O_RDONLY | O_NOFOLLOW);
  if (!file) return Failure(file.error());
  return sys::read_text(file->get(), name, kMaxRecord);
}

std::optional<Timestamp> time_field(api::ObjectReader& r, std::string_view name) {
  const auto text = r.optional_string(name);
  if (!text) return std::nullopt;
  const auto time = parse_timestamp(*text);
  if (!time) r.reject(name, "expected a time");
  return time ? std::optional(*time) : std::nullopt;
}

}  // namespace

std::string_view to_string(TaskState state) { return kStates[static_cast<std::size_t>(state)]; }

std::string encode_record(const TaskRecord& record) {
  json::object sub;
  if (const auto reason = reason_of(record.status); !reason.empty()) sub["reason"] = reason;
  if (record.status.ended()) sub["exitCode"] = record.status.exit_code;
  if (record.status.started_at) sub["startedAt"] = format_timestamp(*record.status.started_at);
  if (record.status.finished_at) sub["finishedAt"] = format_timestamp(*record.status.finished_at);
  json::object out{{"name", record.name}};
  if (record.deleted_at) out["deletionTimestamp"] = format_timestamp(*record.deleted_at);
  out["process"] = record.process ? json::value(api::to_json(*record.process)) : json::value();
  out["podTemplateSpec"] = record.pod_template;
  out["status"] = {{"state", to_string(record.status.state)}, {"subStatuses", json::array{std::move(sub)}}};
  return json::serialize(out) + "\n";
}

Result<TaskRecord> decode_record(std::string_view text) {
  const auto value = api::parse_json(text);
  if (!value) return Failure(value.error());
  TaskRecord out;
  api::ObjectReader r(*value, {});
  out.name = r.required_string("name");
  out.deleted_at = time_field(r, "deletionTimestamp");
  if (const json::value* process = r.find("process")) {
    auto parsed = api::parse_task_process(*process);
    if (!parsed) return with_context("/process", parsed.error());
    out.process = std::move(*parsed);
  }
  if (const json::value* pod = r.find("podTemplateSpec")) out.pod_template = *pod;
  r.object("status", [&](api::ObjectReader& status) {
    const std::string state = status.optional_string("state").value_or("Pending");
    for (std::size_t i = 0; i < std::size(kStates); ++i) {
      if (kStates[i] == state) out.status.state = static_cast<TaskState>(i);
    }
    status.array("subStatuses", [&](api::ObjectReader& sub) {
      out.status.exit_code = static_cast<int>(sub.optional_int64("exitCode", INT32_MIN, INT32_MAX).value_or(0));
      out.status.started_at = time_field(sub, "startedAt");
      out.status.finished_at = time_field(sub, "finishedAt");
    });
  });
  if (auto read = r.finish(); !read) return Failure(read.error());
  return out;
}

api::Task to_task(const TaskRecord& record) {
  api::Task out{record.name, record.process, record.pod_template, {}};
  const TaskStatus& status = record.status;
  const std::string reason(reason_of(status));
  if (status.ended()) {
    out.status = api::TaskTerminated{status.exit_code, reason, "", status.started_at, status.finished_at};
  } else if (status.started_at) {
    out.status = api::TaskRunning{status.started_at};
  } else {
    out.status = api::TaskWaiting{reason, ""};
  }
  return out;
}

Result<TaskDirectory> TaskDirectory::create(const std::string& data, const TaskRecord& record) {
  if (!is_file_name(record.name)) {
    return fail(Code::InvalidRequest, "task name " + in_quotes(record.name) + " cannot be the name of a directory");
  }
  const std::string path = data + "/" + record.name;
  const std::string hidden = data + "/" + sys::hidden_name();
  if (::mkdir(hidden.c_str(), 0755) < 0) return sys::from_errno("mkdir " + hidden, errno);
  auto fd = sys::open_at(AT_FDCWD, hidden, O_RDONLY | O_DIRECTORY);
  Result<void> done;
  if (!fd) {
    done = Failure(fd.error());
  } else {
    done = sys::replace_file(fd->get(), "task.json", encode_record(record));
    if (done && ::renameat2(AT_FDCWD, hidden.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) < 0) {
      done = errno == EEXIST ? Result<void>(fail(Code::Conflict, "task " + record.name + " already exists"))
                             : sys::from_errno("make " + path, errno);
    }
  }
  if (!done) {
    (void)sys::remove_tree(AT_FDCWD, hidden);
    return Failure(done.error());
  }
  return TaskDirectory(path, std::move(*fd));
}

Result<TaskDirectory> TaskDirectory::open(const std::string& data, const std::string& name) {
  const std::string path = data + "/" + name;
  auto fd = sys::open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!fd) return Failure(fd.error());
  return TaskDirectory(path, std::move(*fd));
}

Result<std::vector<std::string>> TaskDirectory::list(const std::string& data) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(data.c_str()), &::closedir);
  if (!dir) return sys::from_errno("open " + data, errno);
  std::vector<std::string> names, leftovers;
  while (const dirent* entry = ::readdir(dir.get())) {
    const std::string name = entry->d_name;
    if (name.starts_with(kHidden)) leftovers.push_back(name);
    if (is_file_name(name)) names.push_back(name);
  }
  for (const std::string& name : leftovers) {
    auto removed = sys::remove_tree(AT_FDCWD, data + "/" + name);
    if (!removed) log_warn("leftover of a task not removed", {{"error", removed.error().message}});
  }
  return names;
}

Result<TaskRecord> TaskDirectory::load() const {
  const auto text = read_at(directory_.get(), "task.json");
  if (!text) return Failure(text.error());
  return decode_record(*text);
}

Result<void> TaskDirectory::save(const TaskRecord& record) const {
  return sys::replace_file(directory_.get(), "task.json", encode_record(record));
}

Result<void> TaskDirectory::save_supervisor(const SupervisorRecord& s) const {
  const json::object out{{"pid", s.pid}, {"start", s.start}, {"bootId", s.boot_id}, {"cgroup", s.cgroup}};
  if (auto written = sys::replace_file(directory_.get(), "supervisor.json", json::serialize(out)); !written) return written;
  return sys::replace_file(directory_.get(), "pid", std::to_string(s.pid));
}

std::optional<SupervisorRecord> TaskDirectory::supervisor() const {
  const auto text = read_at(directory_.get(), "supervisor.json");
  const auto value = text ? api::parse_json(*text) : Result<json::value>(Failure(text.error()));
  if (!value) return std::nullopt;
  api::ObjectReader r(*value, {});
  SupervisorRecord out;
  out.pid = static_cast<pid_t>(r.required_int64("pid", 1, INT32_MAX));
  out.start = static_cast<std::uint64_t>(r.required_int64("start", 0));
  out.boot_id = r.optional_string("bootId").value_or("");
  out.cgroup = r.optional_string("cgroup").value_or("");
  if (!r.finish()) return std::nullopt;
  return out;
}

Result<UniqueFd> TaskDirectory::open_log(const std::string& name) const {
  return sys::open_at(directory_.get(), name, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0644);
}

TaskStatus TaskDirectory::inspect(bool alive) const {
  TaskStatus out;
  out.started_at = modified(directory_.get(), "pid");
  if (const auto exit = read_at(directory_.get(), "exit")) {
    // A text that is no number counts as a crash: only the supervisor writes this file.
    out.exit_code = parse_number<int>(*exit).value_or(kCrashExitCode);
    out.state = out.exit_code == 0 ? TaskState::Succeeded : TaskState::Failed;
    out.finished_at = modified(directory_.get(), "exit");
  } else if (out.started_at && alive) {
    out.state = TaskState::Running;
  } else if (out.started_at) {
    out.state = TaskState::Failed;
    out.exit_code = kCrashExitCode;
    out.finished_at = out.started_at;
  }
  return out;
}

Result<void> TaskDirectory::remove(const std::string& data) const {
  const std::string hidden = data + "/" + sys::hidden_name();
  if (::rename(path_.c_str(), hidden.c_str()) < 0 && errno != ENOENT) return sys::from_errno("rename " + path_, errno);
  return sys::remove_tree(AT_FDCWD, hidden);
}

}  // namespace osb::taskexecutor
