#include "execd/run/run.h"

#include <algorithm>
#include <cerrno>
#include <signal.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "async/descriptor.h"
#include "base/deadline.h"
#include "base/duration.h"
#include "base/line_splitter.h"
#include "base/out_of_memory.h"
#include "base/time.h"
#include "execd/run/output_pipe.h"
#include "sys/pidfd.h"
#include "sys/syscall.h"

namespace osb::execd {
namespace {

// SIGTERM to members that are not in the leader's process group.
void terminate_outside(const sys::ProcessTree& tree) {
  for (const sys::Process& member : sys::collect_tree(tree)) {
    if (member.group == tree.leader) continue;
    const auto handle = sys::open_pidfd(member.pid);
    const auto same = sys::read_process(member.pid);
    if (handle && same && same->start == member.start) static_cast<void>(sys::send_signal(handle->get(), SIGTERM));
  }
}

// Returns true when no member is left, false when the time is up first. `tree` and `host` outlive the call.
net::awaitable<bool> all_gone(RunHost& host, const sys::ProcessTree& tree, const Deadline& deadline) {
  for (;;) {
    const std::vector<sys::Process> members = co_await host.pool().run([&] { return sys::collect_tree(tree); });
    if (members.empty()) co_return true;
    for (const sys::Process& member : members) {
      auto handle = sys::open_pidfd(member.pid);
      const auto same = sys::read_process(member.pid);
      if (!handle || !same || same->start != member.start) continue;
      auto ended = Descriptor::open(host.executor(), std::move(*handle));
      if (!ended) co_return false;
      const auto left = deadline.left();
      if (left.count() == 0 || !co_await with_timeout(ended->wait_readable(), left)) co_return false;
    }
  }
}

}  // namespace

struct Run::Pipe : OutputPipe {
  using OutputPipe::OutputPipe;
  LineSplitter splitter{kMaxEventText};
};

struct Run::Timeout {
  Timeout(const net::any_io_executor& executor, std::chrono::milliseconds time) : timer(executor, time) {}
  net::steady_timer timer;
};

Run::Run(RunHost& host, RunPlan plan)
    : host_(host), plan_(std::move(plan)), log_(std::make_shared<EventLog>(plan_.log)), writer_(*log_) {
  log_->on_room([this] { on_room(); });
}

Run::~Run() { log_->on_room(nullptr); }

void Run::write_init() {
  writer_.stamp(unix_millis());
  writer_.init(plan_.init_text);
}

Result<void> Run::start() {
  write_init();
  started_ = host_.clock().steady_now();

  sys::SpawnPlan process = std::exchange(plan_.process, {});
  process.env.push_back(std::string(kRunIdVariable) + "=" + plan_.id);
  UniqueFd writers[2];
  for (int i = 0; i < (plan_.merge_stderr ? 1 : 2); ++i) {
    auto pipe = make_output_pipe();
    if (!pipe) return Failure(pipe.error());
    pipes_[i] = std::make_unique<Pipe>(host_.executor(), std::move(pipe->read), i == 1);
    writers[i] = std::move(pipe->write);
  }
  process.fds.emplace_back(1, writers[0].get());
  process.fds.emplace_back(2, writers[plan_.merge_stderr ? 0 : 1].get());
  oom_mark_ = host_.oom_kills().mark();
  auto started = host_.spawn(std::move(process));
  if (!started) {
    for (auto& pipe : pipes_) pipe.reset();
    return Failure(started.error());
  }
  pid_ = started->child.pid;
  cgroup_ = std::move(started->cgroup);
  host_.reaper().watch(pid_, [self = shared_from_this()](sys::ExitStatus status) { self->on_exit(status); });
  for (auto& pipe : pipes_) {
    if (pipe) arm(*pipe);
  }
  if (plan_.timeout.count() > 0) {
    timeout_ = std::make_unique<Timeout>(host_.executor(), plan_.timeout);
    timeout_->timer.async_wait([self = shared_from_this()](boost::system::error_code stopped) {
      if (stopped || self->exited_) return;
      self->timed_out_ = true;
      self->kill_tree();
    });
  }
  log_->publish();
  return {};
}

void Run::fail(std::string_view name, std::string_view value) {
  if (log_->last_seq() == 0) write_init();
  writer_.error(name, value, std::vector<std::string>{std::string(value)});
  log_->close();
}

void Run::arm(Pipe& pipe) {
  pipe.wait([self = shared_from_this(), &pipe](boost::system::error_code stopped) {
    // After the end the pipe belongs to drain(), or is gone.
    if (!stopped && !self->exited_) self->on_readable(pipe);
  });
}

void Run::on_readable(Pipe& pipe) {
  if (log_->congested()) {
    pipe.blocked = blocked_ = true;
    return;
  }
  consume(pipe, host_.buffer().size());
  log_->publish();
  if (pipe.file.is_open()) arm(pipe);
}

// Reads once; closes the pipe at its end. Returns how much it was.
std::size_t Run::consume(Pipe& pipe, std::size_t limit) {
  const std::string_view bytes = pipe.read(host_.buffer(), limit);
  if (bytes.empty()) return 0;
  if (plan_.raw) plan_.raw->append(bytes);
  if (plan_.on_output) plan_.on_output(bytes);
  writer_.stamp(unix_millis());
  pipe.splitter.feed(bytes, [&](std::string_view line) { emit(pipe, line); });
  return bytes.size();
}

void Run::emit(const Pipe& pipe, std::string_view line) {
  if (!line.empty()) {
    writer_.output(pipe.is_stderr, line);
  } else if (!plan_.drop_empty_lines) {
    writer_.output(pipe.is_stderr, "\n");
  }
}

void Run::on_room() {
  if (!std::exchange(blocked_, false)) return;
  // Not at once: the reader that made room is in the middle of taking events.
  net::post(host_.executor(), [self = shared_from_this()] {
    if (self->exited_) {
      if (self->kills_ == 0) self->drain();
    } else {
      for (auto& pipe : self->pipes_) {
        if (pipe && std::exchange(pipe->blocked, false)) self->arm(*pipe);
      }
    }
  });
}

void Run::on_exit(sys::ExitStatus status) {
  exited_ = true;
  cgroup_.reset();  // kept by the host for those who are still in it
  end_.status = status;
  end_.timed_out = timed_out_;
  end_.reason = reason_of(status);
  end_.at = host_.clock().now();
  end_.took = std::chrono::duration_cast<std::chrono::milliseconds>(host_.clock().steady_now() - started_);
  if (timeout_) timeout_->timer.cancel();
  if (exit_event_) exit_event_->set();
  for (auto& pipe : pipes_) {
    if (pipe && pipe->file.is_open()) pipe->file.cancel();
  }
  if (kills_ == 0) take_rest();
}

std::optional<EndReason> Run::reason_of(const sys::ExitStatus& status) {
  if (timed_out_) return EndReason{kReasonTimeout, "timed out after " + format_duration(plan_.timeout)};
  if (status.ok()) return std::nullopt;
  if (interrupted_) return EndReason{kReasonInterrupted, "interrupted by a request"};
  if (killed_by_us_) return std::nullopt;
  return host_.oom_kills().explain(oom_mark_, status);
}

void Run::take_rest() {
  for (auto& pipe : pipes_) {
    if (pipe) pipe->count_rest();
  }
  drain();
}

// Takes what was in the pipes when the process ended, and no more: a descendant may write for ever.
void Run::drain() {
  for (auto& pipe : pipes_) {
    if (!pipe) continue;
    blocked_ = !pipe->take_rest([&] { return log_->congested(); },
                                [&](std::size_t limit) {
                                  const std::size_t taken = consume(*pipe, limit);
                                  log_->publish();
                                  return taken;
                                });
    if (blocked_) return;
  }
  finish();
}

void Run::finish() {
  // Room for a reader and the end of the process may both lead here, one right behind the other.
  if (std::exchange(finished_, true)) return;
  writer_.stamp(unix_millis());
  for (auto& pipe : pipes_) {
    if (!pipe) continue;
    pipe->splitter.finish([&](std::string_view line) { emit(*pipe, line); });
    if (pipe->file.is_open()) {
      UniqueFd file(pipe->file.release());
      char byte;
      // Usually no other process has it open.
      if (const ssize_t n = ::read(file.get(), &byte, 1); n != 0) {
        if (n > 0 && plan_.raw) plan_.raw->append({&byte, 1});
        host_.keep_draining(std::move(file), plan_.raw);
      }
    }
    pipe.reset();
  }
  plan_.on_end(end_, writer_);
  log_->close();
  log_->shrink();
}

// The start time is read while the process cannot have been freed: it tells the pid from a later process's. The cgroup
// stays ours as long as cgroup_ is held.
sys::ProcessTree Run::tree() const {
  sys::ProcessTree tree;
  tree.leader = pid_;
  if (const auto leader = sys::read_process(pid_)) tree.leader_start = leader->start;
  tree.marker = std::string(kRunIdVariable) + "=" + plan_.id;
  tree.cgroup = cgroup_.get();
  return tree;
}

void Run::kill_tree() {
  if (pid_ < 0 || exited_) return;
  killed_by_us_ = true;
  // First one call that no fork can outrun: a fork bomb is at rest before anything slow begins.
  ::kill(-pid_, SIGSTOP);
  ++kills_;
  // A process in the kernel's hands does not die: nothing more can be done about it.
  host_.pool().post([self = shared_from_this(), tree = tree(), cgroup = cgroup_, home = host_.executor()]() mutable {
    static_cast<void>(sys::kill_tree(tree));
    // The cgroup is given back where it came from.
    net::post(home, [self = std::move(self), cgroup = std::move(cgroup)] {
      if (--self->kills_ == 0 && self->exited_) self->take_rest();
    });
  });
}

net::awaitable<bool> Run::stop(std::chrono::milliseconds grace, StopCause cause) {
  if (pid_ < 0 || exited_) co_return false;
  killed_by_us_ = true;
  if (cause == StopCause::UserInterrupt) interrupted_ = true;
  const auto self = shared_from_this();
  const sys::ProcessTree members = tree();
  const auto cgroup = cgroup_;  // held until all are gone
  // The group at once and as a whole; those that left it one by one.
  ::kill(-pid_, SIGTERM);
  const Deadline deadline(grace);
  co_await host_.pool().run([&] { terminate_outside(members); });
  if (!co_await all_gone(host_, members, deadline)) {
    if (!exited_) ::kill(-pid_, SIGSTOP);
    co_await host_.pool().run([&] { static_cast<void>(sys::kill_tree(members)); });
  }
  if (!exited_) {
    if (!exit_event_) exit_event_ = std::make_unique<Event>(host_.executor());
    co_await exit_event_->wait();
  }
  co_return true;
}

}  // namespace osb::execd
