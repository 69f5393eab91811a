#include "execd/pty/pty_shell.h"

#include <algorithm>
#include <cerrno>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utility>

#include "base/id.h"
#include "base/log.h"
#include "execd/run/run.h"
#include "sys/pty.h"
#include "sys/syscall.h"

namespace osb::execd {
namespace {

constexpr std::size_t kMaxOutput = 32 * 1024;
// Input that the shell does not read; beyond it the client has to wait. A client that counts the taken input and never
// has more than this under way never waits, so that its signals arrive.
constexpr std::size_t kMaxInput = 1024 * 1024;
// A terminal whose shell has ended is hung up by the kernel, which ends its output. Where a kernel does not do that,
// output is complete when none came for so long.
constexpr std::chrono::seconds kHangUp(1);

}  // namespace

PtyShell::PtyShell(RunHost& host, Mode mode, Owner& owner, std::shared_ptr<void> keep)
    : host_(host), mode_(mode), owner_(&owner), keep_(std::move(keep)), changed_(host.executor()) {}

PtyShell::~PtyShell() = default;

Result<void> PtyShell::open(sys::SpawnPlan& process, UniqueFd (&child)[3]) {
  const auto take = [&](std::optional<Descriptor>& to, UniqueFd fd) -> Result<void> {
    auto opened = Descriptor::open(host_.executor(), std::move(fd));
    if (!opened) return Failure(opened.error());
    to.emplace(std::move(*opened));
    return {};
  };
  if (mode_ == Mode::Terminal) {
    auto pty = sys::open_pty();
    if (!pty) return Failure(pty.error());
    child[0] = std::move(pty->terminal);
    // Programs open their terminal by name, too.
    if (process.uid) (void)::fchown(child[0].get(), *process.uid, static_cast<gid_t>(-1));
    for (int i = 0; i < 3; ++i) process.fds.emplace_back(i, child[0].get());
    process.group = sys::SpawnPlan::Group::NewSession;
    process.controlling_tty = 0;
    return take(output_, std::move(pty->master));
  }
  for (int i = 0; i < 3; ++i) {
    auto pipe = sys::make_pipe();
    if (!pipe) return Failure(pipe.error());
    const bool input = i == 0;
    child[i] = std::move(input ? pipe->read : pipe->write);
    process.fds.emplace_back(i, child[i].get());
    auto& ours = input ? stdin_ : i == 1 ? output_ : stderr_;
    if (auto taken = take(ours, std::move(input ? pipe->write : pipe->read)); !taken) return taken;
  }
  process.group = sys::SpawnPlan::Group::NewGroup;
  return {};
}

Result<std::shared_ptr<PtyShell>> PtyShell::start(RunHost& host, TaskGroup& tasks, Mode mode, sys::SpawnPlan process,
                                                  Owner& owner, std::shared_ptr<void> keep) {
  std::shared_ptr<PtyShell> self(new PtyShell(host, mode, owner, std::move(keep)));
  UniqueFd child[3];
  if (auto opened = self->open(process, child); !opened) return Failure(opened.error());
  self->marker_ = std::string(kRunIdVariable) + "=" + new_hex_id();
  process.env.push_back(self->marker_);
  self->oom_mark_ = host.oom_kills().mark();
  auto started = host.spawn(std::move(process));
  if (!started) return Failure(started.error());
  self->pid_ = started->child.pid;
  self->cgroup_ = std::move(started->cgroup);
  host.reaper().watch(self->pid_, [self](sys::ExitStatus status) { self->on_exit(status); });

  // A lambda's captures die with it: the object goes as a parameter.
  const auto pump = [](std::shared_ptr<PtyShell> shell, bool is_stderr) -> net::awaitable<void> {
    co_await shell->pump(is_stderr ? *shell->stderr_ : *shell->output_, is_stderr ? 2 : 1);
  };
  const auto feed = [](std::shared_ptr<PtyShell> shell) -> net::awaitable<void> { co_await shell->feed_input(); };
  const auto watch = [](std::shared_ptr<PtyShell> shell) -> net::awaitable<void> { co_await shell->supervise(); };
  self->pumps_ = self->stderr_ ? 2 : 1;
  tasks.spawn("pty output", pump(self, false));
  if (self->stderr_) tasks.spawn("pty stderr", pump(self, true));
  tasks.spawn("pty input", feed(self));
  tasks.spawn("pty shell", watch(self));
  return self;
}

// Everything until the end. After the shell's exit a pipe's end may be far, as descendants hold it: what is in it then
// is all.
net::awaitable<void> PtyShell::pump(Descriptor& from, char tag) {
  while (co_await room()) {
    const bool exited = status_.has_value();
    if (exited && mode_ == Mode::Pipes) {
      int left = 0;
      if (::ioctl(from.fd(), FIONREAD, &left) == 0) co_await deliver(from, tag, static_cast<std::size_t>(left));
      if (from.is_open()) host_.keep_draining(from.release(), {});
      break;
    }
    const auto ready = exited ? co_await with_timeout(from.wait_readable(), kHangUp) : co_await from.wait_readable();
    if (closed_) break;
    if (!ready) {
      if (!exited && status_) continue;  // the exit has cancelled it
      break;
    }
    const auto got = from.try_read(host_.buffer().first(std::min(kMaxOutput, host_.buffer().size())));
    if (got && *got > 0) {
      owner_->on_output(*this, tag, {host_.buffer().data(), *got});
    } else if (got || got.error().code != Code::Unavailable) {
      break;
    }
  }
  --pumps_;
  changed_.notify_all();
}

net::awaitable<void> PtyShell::deliver(Descriptor& from, char tag, std::size_t bytes) {
  while (bytes > 0 && co_await room()) {
    const auto got = from.try_read(host_.buffer().first(std::min({kMaxOutput, bytes, host_.buffer().size()})));
    if (!got || *got == 0) co_return;
    owner_->on_output(*this, tag, {host_.buffer().data(), *got});
    bytes -= *got;
  }
}

// False: the shell is closed, and its output is not wanted any more.
net::awaitable<bool> PtyShell::room() {
  const bool waited = co_await changed_.wait_until([this] { return closed_ || owner_->has_room(); });
  co_return waited && !closed_;
}

net::awaitable<void> PtyShell::feed_input() {
  std::uint64_t taken = 0;
  for (;;) {
    if (!co_await changed_.wait_until([&] { return closed_ || input_ended_ || !input_.empty(); }) || closed_) co_return;
    if (input_.empty()) co_return stdin_->close();
    const std::string bytes = std::move(input_.front());
    input_.pop_front();
    input_waiting_ -= bytes.size();
    changed_.notify_all();
    const auto written = co_await input_file().write_all(bytes);
    if (closed_ || status_) co_return;
    if (!written && written.error().code == Code::Cancelled) co_return;
    taken += bytes.size();
    if (written) {
      owner_->on_input_taken(*this, taken);
    } else {
      owner_->on_input_failed(*this, written.error());
    }
  }
}

net::awaitable<void> PtyShell::input(std::string bytes) {
  const auto self = shared_from_this();
  if (closed_ || status_ || input_ended_) co_return;
  input_waiting_ += bytes.size();
  input_accepted_ += bytes.size();
  input_.push_back(std::move(bytes));
  changed_.notify_all();
  co_await changed_.wait_until([&] { return closed_ || status_ || input_waiting_ <= kMaxInput; });
}

void PtyShell::end_input() {
  if (mode_ != Mode::Pipes) return;
  input_ended_ = true;
  changed_.notify_all();
}

void PtyShell::on_exit(sys::ExitStatus status) {
  status_ = status;
  if (!killed_by_us_) reason_ = host_.oom_kills().explain(oom_mark_, status);
  cgroup_.reset();  // the host keeps it for processes that are still in it
  for (auto* file : {&stdin_, &output_, &stderr_}) {
    if (*file) (*file)->cancel();
  }
  changed_.notify_all();
}

net::awaitable<void> PtyShell::supervise() {
  co_await changed_.wait_until([&] { return status_ && pumps_ == 0; });
  closed_ = true;
  for (auto* file : {&stdin_, &output_, &stderr_}) {
    if (*file) (*file)->close();
  }
  Owner* const owner = std::exchange(owner_, nullptr);
  if (status_) owner->on_end(*this, *status_, reason_);
  keep_.reset();
  changed_.notify_all();
}

void PtyShell::signal(int number) {
  if (status_) return;
  if (number == SIGKILL) killed_by_us_ = true;
  ::kill(-pid_, number);  // not freed yet, so the number is still ours
}

void PtyShell::resize(int columns, int rows) {
  if (mode_ != Mode::Terminal || closed_ || !output_->is_open()) return;
  const sys::WindowSize size{static_cast<unsigned short>(columns), static_cast<unsigned short>(rows)};
  if (auto done = sys::set_window_size(output_->fd(), size); !done) {
    log_warn("pty resize failed", {{"error", done.error().message}});
  }
}

net::awaitable<void> PtyShell::kill() {
  if (status_) co_return;
  killed_by_us_ = true;
  const auto self = shared_from_this();
  sys::ProcessTree tree;
  tree.leader = pid_;
  if (const auto leader = sys::read_process(pid_)) tree.leader_start = leader->start;
  tree.marker = marker_;
  const auto cgroup = cgroup_;  // held until all are gone
  tree.cgroup = cgroup.get();
  // A process in the kernel's hands does not die: nothing more can be done about it.
  co_await host_.pool().run([&] { static_cast<void>(sys::kill_tree(tree)); });
}

net::awaitable<void> PtyShell::ended() {
  const auto self = shared_from_this();
  co_await changed_.wait_until([&] { return owner_ == nullptr; });
}

}  // namespace osb::execd
