#include "taskexecutor/launch.h"

#include <algorithm>
#include <csignal>
#include <dirent.h>
#include <fcntl.h>
#include <functional>
#include <memory>
#include <span>
#include <unistd.h>

#include "base/id.h"
#include "base/json_escape.h"
#include "base/log.h"
#include "base/parse_number.h"
#include "sys/pidfd.h"
#include "sys/process_tree.h"
#include "sys/spawn.h"
#include "sys/syscall.h"
#include "sys/text_file.h"
#include "taskexecutor/supervisor.h"

namespace osb::taskexecutor {
namespace {

// A cgroup whose members the kernel does not let go in this time stays behind.
constexpr std::chrono::seconds kCgroupEnd{5};

std::string boot_id() { return sys::read_text("/proc/sys/kernel/random/boot_id", 256).value_or(""); }

std::vector<std::string> split_environ(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\0'), text.size());
    out.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

Result<std::vector<std::string>> command_of(const api::TaskProcess& process) {
  std::vector<std::string> out = process.command;
  out.insert(out.end(), process.args.begin(), process.args.end());
  if (out.empty() || out[0].empty()) return fail(Code::InvalidRequest, "process.command is empty");
  for (const std::string& word : out) {
    if (word.contains('\0')) return fail(Code::InvalidRequest, "process.command contains a NUL byte");
  }
  if (process.working_dir.contains('\0')) return fail(Code::InvalidRequest, "process.workingDir contains a NUL byte");
  return out;
}

Result<std::vector<std::string>> environment_of(Environment env, const api::TaskProcess& process) {
  for (const api::TaskVariable& variable : process.env) {
    const std::string& name = variable.name;
    if (name.empty() || name.contains('=') || name.contains('\0') || variable.value.contains('\0')) {
      return fail(Code::InvalidRequest, "process.env: " + in_quotes(name) + " cannot be a variable");
    }
    env.insert_or_assign(name, variable.value);
  }
  std::vector<std::string> out;
  for (const auto& [name, value] : env) out.push_back(name + "=" + value);
  return out;
}

std::string make_cgroup(const std::optional<sys::CommandCgroups>& cgroups) {
  if (!cgroups) return {};
  const auto made = cgroups->create_leaf("osb-task-" + new_hex_id());
  if (made) return made->directory();
  log_warn("task runs without a cgroup", {{"error", made.error().message}});
  return {};
}

std::string read_to_end(int fd) {
  std::string out;
  char buffer[1024];
  for (;;) {
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return out;
    out.append(buffer, static_cast<std::size_t>(got));
  }
}

struct Ends {
  sys::Pipe go, report;
};

Result<Ends> make_pipes() {
  auto go = sys::make_pipe();
  if (!go) return Failure(go.error());
  auto report = sys::make_pipe();
  if (!report) return Failure(report.error());
  return Ends{std::move(*go), std::move(*report)};
}

Result<void> record(const sys::Child& child, const std::string& cgroup, const TaskDirectory& directory) {
  const auto seen = sys::read_process(child.pid);
  if (!seen) return fail(Code::Internal, "the supervisor has ended");
  return directory.save_supervisor({child.pid, seen->start, boot_id(), cgroup});
}

// Writes the record, tells the supervisor to start the task, and waits for its answer.
Result<void> start_task(Ends& ends, const sys::Child& child, const std::string& cgroup,
                        const TaskDirectory& directory) {
  ends.go.read.reset();
  ends.report.write.reset();
  if (auto recorded = record(child, cgroup, directory); !recorded) return recorded;
  if (::write(ends.go.write.get(), "g", 1) != 1) return sys::from_errno("start the supervisor", errno);
  const std::string why = read_to_end(ends.report.read.get());
  if (!why.empty()) return fail(Code::Internal, why);
  return {};
}

}  // namespace

Environment parse_environment(std::span<const std::string> entries) {
  Environment out;
  for (const std::string& entry : entries) {
    const std::size_t equals = entry.find('=');
    if (equals == 0 || equals == std::string::npos) continue;
    out.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return out;
}

Result<MainContainer> find_main_container(std::string_view name, const std::string& proc) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(proc.c_str()), &::closedir);
  if (!dir) return sys::from_errno("open " + proc, errno);
  std::vector<pid_t> pids;
  while (const dirent* entry = ::readdir(dir.get())) {
    const auto pid = parse_number<pid_t>(entry->d_name);
    if (pid && *pid != ::getpid()) pids.push_back(*pid);
  }
  std::ranges::sort(pids);
  const std::string wanted = "SANDBOX_MAIN_CONTAINER=" + std::string(name);
  for (const pid_t pid : pids) {
    const std::string path = proc + "/" + std::to_string(pid);
    const auto text = sys::read_text(path + "/environ");
    if (!text) continue;  // ended meanwhile, or not ours to read
    const std::vector<std::string> entries = split_environ(*text);
    if (std::ranges::find(entries, wanted) == entries.end()) continue;
    MainContainer out{parse_environment(entries), {}};
    for (const char* kind : {"uts", "ipc", "net", "pid", "mnt"}) {
      auto fd = sys::open_at(AT_FDCWD, path + "/ns/" + kind, O_RDONLY);
      if (!fd) return with_context("enter the main container", fd.error());
      out.namespaces.push_back(std::move(*fd));
    }
    return out;
  }
  return fail(Code::NotFound, "no process of the main container " + in_quotes(name) + " was found");
}

Result<Supervisor> launch(const LaunchPlan& plan, const TaskDirectory& directory) {
  auto command = command_of(plan.process);
  if (!command) return Failure(command.error());
  MainContainer container;
  if (!plan.main_container.empty()) {
    auto found = find_main_container(plan.main_container);
    if (!found) return Failure(found.error());
    container = std::move(*found);
  }
  auto env = environment_of(plan.main_container.empty() ? plan.env : container.env, plan.process);
  if (!env) return Failure(env.error());
  auto out = directory.open_log("stdout.log");
  if (!out) return Failure(out.error());
  auto err = directory.open_log("stderr.log");
  if (!err) return Failure(err.error());
  auto ends = make_pipes();
  if (!ends) return Failure(ends.error());

  Supervisor made{UniqueFd(), make_cgroup(plan.cgroups)};
  sys::SpawnPlan spawn;
  spawn.program = "/proc/self/exe";
  spawn.argv = {"task-executor", kSuperviseArgument, plan.process.working_dir, made.cgroup,
                std::to_string(container.namespaces.size())};
  spawn.argv.insert(spawn.argv.end(), command->begin(), command->end());
  spawn.env = std::move(*env);
  spawn.group = sys::SpawnPlan::Group::NewSession;
  spawn.fds = {{1, out->get()},
               {2, err->get()},
               {kDirectoryFd, directory.fd()},
               {kGoFd, ends->go.read.get()},
               {kReportFd, ends->report.write.get()}};
  for (std::size_t i = 0; i < container.namespaces.size(); ++i) {
    spawn.fds.emplace_back(kFirstNamespaceFd + static_cast<int>(i), container.namespaces[i].get());
  }
  auto child = sys::spawn(spawn);
  if (!child) {
    clear_cgroup(made.cgroup);
    return Failure(child.error());
  }
  made.pidfd = std::move(child->pidfd);
  if (auto started = start_task(*ends, *child, made.cgroup, directory); !started) {
    ends->go.write.reset();
    (void)sys::send_signal(made.pidfd.get(), SIGKILL);
    clear_cgroup(made.cgroup);
    return Failure(started.error());
  }
  return made;
}

std::optional<Supervisor> find_supervisor(const TaskDirectory& directory) {
  const auto record = directory.supervisor();
  if (!record || record->boot_id != boot_id()) return std::nullopt;
  auto pidfd = sys::open_pidfd(record->pid);
  // Looked at after the pidfd was opened: it then belongs to this process and no later one.
  const auto seen = sys::read_process(record->pid);
  if (!pidfd || !seen || !seen->alive || seen->start != record->start) return std::nullopt;
  return Supervisor{std::move(*pidfd), record->cgroup};
}

void clear_cgroup(const std::string& directory) {
  if (directory.empty()) return;
  const sys::Cgroup cgroup = sys::Cgroup::at(directory);
  if (cgroup.use() == sys::Cgroup::Use::Busy) {
    (void)cgroup.kill();
    (void)cgroup.wait_empty(kCgroupEnd);
  }
  if (auto removed = cgroup.remove(); !removed) {
    log_warn("cgroup of a task not removed", {{"error", removed.error().message}});
  }
}

}  // namespace osb::taskexecutor
