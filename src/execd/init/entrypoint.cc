#include "execd/init/entrypoint.h"

#include <csignal>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

#include <boost/asio/post.hpp>

#include "api/lifecycle_hooks.h"
#include "async/race.h"
#include "base/log.h"
#include "execd/init/inherited_fd.h"
#include "execd/run/environment.h"
#include "execd/run/oom_score.h"
#include "sys/process_tree.h"
#include "sys/syscall.h"
#include "sys/write_all.h"

namespace osb::execd {

using namespace race;

namespace {

constexpr std::size_t kMostLines = 1 << 20;

}  // namespace

Entrypoint::Entrypoint(net::any_io_executor executor, ChildReaper& reaper, BlockingPool& pool, Plan plan)
    : executor_(executor),
      reaper_(reaper),
      pool_(pool),
      plan_(std::move(plan)),
      recorded_(executor),
      flushed_(executor),
      tasks_(executor) {}

void Entrypoint::start(const Environment& env) {
  if (std::exchange(begun_, true)) return;
  const auto pid = spawn(env);
  if (!pid) {
    log_error("entrypoint not started", {{"error", pid.error().message}});
    const int code = pid.error().sys_errno == ENOENT ? 127 : 126;
    finish(
        {.status = {code, 0}, .finished_at = plan_.clock->now(), .error = pid.error().message, .hook_failed = false});
    return;
  }
  pid_ = *pid;
  log_info("entrypoint started", {{"pid", pid_}, {"program", plan_.argv.front()}});
  reaper_.watch(pid_, [this](sys::ExitStatus status) {
    pid_ = -1;
    finish({.status = status, .finished_at = plan_.clock->now(), .error = "", .hook_failed = false});
  });
}

void Entrypoint::refuse(int code, std::string why) {
  if (std::exchange(begun_, true)) return;
  log_error("entrypoint not started", {{"error", why}});
  append(std::string(api::kHookFailureLine) + why + "\n");
  finish({.status = {code, 0}, .finished_at = plan_.clock->now(), .error = std::move(why), .hook_failed = true});
}

Result<pid_t> Entrypoint::spawn(const Environment& env) {
  sys::SpawnPlan plan;
  const auto path = env.find("PATH");
  const auto program = sys::find_program(
      plan_.argv.front(), path == env.end() ? std::string_view("/usr/local/bin:/usr/bin:/bin") : path->second);
  if (!program) return Failure(Error(Code::NotFound, plan_.argv.front() + ": not found in PATH", ENOENT));
  plan.program = *program;
  plan.argv = plan_.argv;
  plan.env = to_environ(env);
  plan.group = sys::SpawnPlan::Group::NewSession;
  if (plan_.log.empty()) {
    plan.fds = {{0, 0}, {1, 1}, {2, 2}};
  } else {
    if (auto opened = open_log(); !opened) return with_context("entrypoint log", opened.error());
    const int output = log_ ? log_->writer() : file_.get();
    plan.fds = {{1, output}, {2, output}};
  }
  plan.oom_score_adj = command_oom_score();
  auto child = sys::spawn(plan);
  if (log_) log_->close_writer();
  if (!child) return Failure(child.error());
  if (log_) tasks_.spawn("write the entrypoint's log", log_->run());
  return child->pid;
}

Result<void> Entrypoint::open_log() {
  if (log_ || file_.get() >= 0) return {};
  auto opened = open_given(plan_.log, O_WRONLY | O_CREAT | O_APPEND, 0644);
  if (!opened) return Failure(opened.error());
  if (!plan_.log_times) {
    file_ = std::move(*opened);
    return {};
  }
  auto log = EntrypointLog::open(executor_, pool_, std::move(*opened));
  if (!log) return Failure(log.error());
  log_ = std::move(*log);
  return {};
}

void Entrypoint::signal(int number) {
  if (pid_ > 0) (void)sys::signal_group(pid_, number);  // it may just have ended
  const bool ends = number == SIGTERM || number == SIGINT || number == SIGHUP || number == SIGQUIT;
  if (ends && !std::exchange(begun_, true)) {
    finish({.status = {0, number}, .finished_at = plan_.clock->now(), .error = "", .hook_failed = false});
  }
}

void Entrypoint::append(std::string lines) {
  if (!plan_.log.empty()) {
    if (auto opened = open_log(); !opened) return log_warn("hook output lost", {{"error", opened.error().message}});
  }
  {
    const std::lock_guard lock(lines_mutex_);
    if (lines_.size() > kMostLines) return;
    lines_ += lines;
    if (lines_.size() > lines.size()) return;  // a thread is on its way to them
  }
  pool_.post([this] { write_lines(); });
}

net::awaitable<void> Entrypoint::lines_written() {
  co_await pool_.run([this] { write_lines(); });
}

// On a thread of the pool: the disk, or the reader of our standard output, may be slow.
void Entrypoint::write_lines() {
  const std::lock_guard one_at_a_time(writing_);
  std::string lines;
  {
    const std::lock_guard lock(lines_mutex_);
    lines = std::exchange(lines_, {});
  }
  if (lines.empty()) return;
  if (log_) {
    log_->append(lines);
  } else {
    (void)sys::write_all(plan_.log.empty() ? STDOUT_FILENO : file_.get(), lines, "entrypoint log");
  }
}

void Entrypoint::finish(ExitRecord record) {
  // The disk may be slow; the loop is not.
  pool_.post([this, record = std::move(record)]() mutable {
    write_lines();
    if (log_) log_->drain();  // once the record exists, all of the output is in the file
    Result<void> written;
    if (!plan_.exit_dir.empty()) written = write_exit_record(plan_.exit_dir, record);
    if (!written) log_error("exit record not written", {{"error", written.error().message}});
    net::post(executor_, [this, record = std::move(record)]() mutable {
      record_ = std::move(record);
      log_info("entrypoint ended", {{"code", record_->status.code}, {"signal", record_->status.signal}});
      recorded_.set();
    });
  });
}

net::awaitable<void> Entrypoint::flush_log(std::chrono::milliseconds limit) {
  if (!log_) co_return;
  pool_.post([this] {
    log_->drain();
    net::post(executor_, [this] { flushed_.set(); });
  });
  co_await (flushed_.wait() || sleep_for(limit));
}

}  // namespace osb::execd
