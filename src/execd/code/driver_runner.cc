#include "execd/code/driver_runner.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/concat.h"
#include "base/id.h"
#include "base/utf8.h"
#include "execd/code/memory_file.h"
#include "execd/run/outcome.h"
#include "execd/run/output_pipe.h"
#include "execd/run/run.h"
#include "sys/syscall.h"
#include "sys/write_all.h"

namespace osb::execd {
namespace {

constexpr std::size_t kStartupText = 4096;
// A line that has not ended waits this long for its rest: print("a", "b") writes in four pieces.
constexpr std::chrono::milliseconds kPartialLine{20};
constexpr std::size_t kMaxPartialLine = 4096;
constexpr std::chrono::seconds kInterruptAgain{1};
// Code of Node.js that an interrupt stops may be in the middle of a function of Node.js, which may not work after that.
// So code gets this long to come to where it waits.
constexpr std::chrono::milliseconds kStillBusy{100};
// A runner that has closed its socket gets this long to end.
constexpr std::chrono::seconds kExit{2};
// After the end of all processes the socket holds what its buffer does, unless one of them could not be killed.
constexpr std::size_t kMaxLastBytes = 1024 * 1024;

// How much of `text` is left when a UTF-8 sequence that its end cuts off is taken away.
std::size_t complete_utf8(std::string_view text) {
  for (std::size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;
    const std::size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC2 ? 2 : 1;
    return length > back ? text.size() - back : text.size();
  }
  return text.size();
}

Result<void> make_sockets(UniqueFd& one, UniqueFd& other) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) return sys::from_errno("socketpair", errno);
  one.reset(ends[0]);
  other.reset(ends[1]);
  return {};
}

}  // namespace

// `left` is what was in the pipe when the newest message came.
struct DriverRunner::Pipe : OutputPipe {
  using OutputPipe::OutputPipe;
  std::string held;  // the beginning of a line, or of a character
};

struct DriverRunner::Io {
  Io(const net::any_io_executor& executor, UniqueFd socket_fd, UniqueFd code_file)
      : socket(executor, socket_fd.release()), code(std::move(code_file)), timer(executor), interrupt_again(executor) {}

  net::posix::stream_descriptor socket;
  bool socket_armed = false;
  UniqueFd code;
  std::unique_ptr<Pipe> pipes[2];
  UniqueFd answers;
  net::steady_timer timer;  // for the rest of a line; once the socket is closed, for the exit
  bool timer_armed = false;
  net::steady_timer interrupt_again;
};

DriverRunner::DriverRunner(RunHost& host, const CodeLanguage& language)
    : host_(host), language_(language), marker_(new_hex_id()), changed_(host.executor()) {}

DriverRunner::~DriverRunner() = default;

Result<std::shared_ptr<CodeRunner>> DriverRunner::start(RunHost& host, const CodeLanguage& language, Start start) {
  std::shared_ptr<DriverRunner> runner(new DriverRunner(host, language));
  runner->on_ready_ = std::move(start.on_ready);
  start.process.env.push_back(concat(kRunIdVariable, "=", runner->marker_));
  runner->oom_mark_ = host.oom_kills().mark();
  if (start.prepared != nullptr && runner->fork(*start.prepared, start.process)) return runner;
  if (auto spawned = runner->spawn(std::move(start.process), start.driver); !spawned) return Failure(spawned.error());
  return runner;
}

Result<DriverRunner::Ends> DriverRunner::connect() {
  UniqueFd ours, answers;
  Ends theirs;
  if (auto made = make_sockets(ours, theirs.socket); !made) return Failure(made.error());
  if (language_.has_answers()) {
    if (auto made = make_sockets(answers, theirs.answers); !made) return Failure(made.error());
  }
  std::unique_ptr<Pipe> pipes[2];
  for (int i = 0; i < 2; ++i) {
    auto pipe = make_output_pipe();
    if (!pipe) return Failure(pipe.error());
    pipes[i] = std::make_unique<Pipe>(host_.executor(), std::move(pipe->read), i == 1);
    theirs.output[i] = std::move(pipe->write);
  }
  auto code = io_ ? Result<UniqueFd>(std::move(io_->code)) : memory_file("code", "");
  if (!code) return Failure(code.error());
  io_ = std::make_unique<Io>(host_.executor(), std::move(ours), std::move(*code));
  std::ranges::move(pipes, io_->pipes);
  io_->answers = std::move(answers);
  return theirs;
}

// A cell may come while the fork is on its way: its code is then in the file already, which is kept.
bool DriverRunner::fork(PreparedKernel& prepared, const sys::SpawnPlan& process) {
  const auto ends = connect();
  if (!ends) return false;
  const int descriptors[] = {ends->socket.get(), io_->code.get(), ends->output[0].get(), ends->output[1].get()};
  return prepared.fork(process, marker_, descriptors,
                       [self = shared_from_this(), process](std::optional<PreparedKernel::Forked> forked) mutable {
                         if (forked) return self->adopt(forked->pid, std::move(forked->cgroup));
                         if (!self->kill_reason_.empty()) return self->fail_start(self->kill_reason_);
                         if (auto spawned = self->spawn(std::move(process), self->language_.driver()); !spawned) {
                           self->fail_start(spawned.error().message);
                         }
                       });
}

Result<void> DriverRunner::spawn(sys::SpawnPlan process, std::string_view text) {
  const auto ends = connect();
  if (!ends) return Failure(ends.error());
  const auto driver = memory_file("driver", language_.driver_on_stdin() ? "" : text);
  if (!driver) return Failure(driver.error());
  process.fds = {{kKernelSocket, ends->socket.get()}, {kKernelCode, io_->code.get()}};
  process.fds.emplace_back(language_.driver_on_stdin() ? 0 : kKernelDriver,
                           language_.driver_on_stdin() ? ends->socket.get() : driver->get());
  for (int i = 0; i < 2; ++i) process.fds.emplace_back(1 + i, ends->output[i].get());
  if (language_.has_answers()) process.fds.emplace_back(kKernelAnswers, ends->answers.get());
  auto started = host_.spawn(std::move(process));
  if (!started) return Failure(started.error());
  adopt(started->child.pid, std::move(started->cgroup));
  if (language_.driver_on_stdin() && !send(text)) kill("its driver could not be sent");
  return {};
}

void DriverRunner::adopt(pid_t pid, sys::CgroupPool::Lease cgroup) {
  pid_ = pid;
  cgroup_ = std::move(cgroup);
  if (const auto leader = sys::read_process(pid_))
    start_time_ = leader->start;  // tells it from later owners of its pid
  host_.reaper().watch(pid_, [self = shared_from_this()](sys::ExitStatus status) { self->on_exit(status); });
  for (auto& pipe : io_->pipes) arm(*pipe);
  arm_socket();
  if (!kill_reason_.empty()) kill_all();
}

void DriverRunner::fail_start(std::string why) {
  start_error_ = std::move(why);
  exited_ = no_more_ = true;
  close();
}

// ---- a cell

void DriverRunner::run(std::shared_ptr<Cell> cell, std::string_view code, const RunSettings& settings) {
  cell_ = std::move(cell);
  oom_mark_ = host_.oom_kills().mark();
  started_ = interrupt_wanted_ = deaf_once_ = false;
  cell_->log()->on_room([this] { on_room(); });
  cell_->publish();
  const std::string head = language_.code_head(settings);
  code_head_ = head.size();
  if (const auto put = put_code(head, code); !put) {
    const auto failed = std::exchange(cell_, nullptr);
    return failed->fail("RUNTIME_ERROR", put.error().message);
  }
  if (ready_) request_run();
}

void DriverRunner::request_run() {
  if (!send(language_.run_request(cell_->number(), code_head_, interrupts_)))
    kill("it does not take requests any more");
}

Result<void> DriverRunner::put_code(std::string_view head, std::string_view code) {
  const int fd = io_->code.get();
  if (::ftruncate(fd, 0) < 0) return sys::from_errno("hand the code over", errno);
  if (!head.empty()) {
    if (auto put = sys::write_all_at(fd, 0, head, "the settings of the run"); !put) return put;
  }
  return sys::write_all_at(fd, head.size(), code, "the code");
}

// Requests are short and a runner reads one before the next is sent, so the socket has room for them. Where it has
// none, the code in the runner has told us lies about its end.
bool DriverRunner::send(std::string_view line) {
  const ssize_t n = ::send(io_->socket.native_handle(), line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  return n == static_cast<ssize_t>(line.size());
}

// A signal that comes before the driver has begun with the code would be lost: it is sent when `started` has come.
void DriverRunner::interrupt() {
  if (!cell_ || exited_ || interrupt_wanted_) return;
  interrupt_wanted_ = true;
  if (started_) begin_interrupt();
}

void DriverRunner::begin_interrupt() {
  if (language_.has_answers() && !deaf_once_) {
    interrupt_later(kStillBusy);
  } else {
    send_interrupt();
  }
}

void DriverRunner::send_interrupt() {
  if (exited_) return;
  ++interrupts_;
  // Also to the programs that the code waits for. A runner that has left its own group is still its leader's pid.
  if (::kill(-pid_, SIGINT) < 0 || ::getpgid(pid_) != pid_) ::kill(pid_, SIGINT);
  // A program that a shell, or Node.js, is just starting loses the signal, and its parent waits for that program. So it
  // is repeated. A shell that has come back to its input meanwhile throws the line away that it reads then, which asks
  // it to report the end: that is repeated too. A second report is one of a run that is over.
  if (language_.driver_on_stdin() || language_.has_answers()) interrupt_later(kInterruptAgain);
}

void DriverRunner::interrupt_later(std::chrono::milliseconds delay) {
  io_->interrupt_again.expires_after(delay);
  io_->interrupt_again.async_wait([self = shared_from_this(), cell = cell_](boost::system::error_code stopped) {
    if (stopped || self->cell_ != cell) return;
    const bool shell = self->language_.driver_on_stdin();
    if (shell || self->started_) self->send_interrupt();
    if (!shell) return;
    if (!self->send(self->language_.end_request(cell->number()))) self->kill("it does not take requests any more");
  });
}

void DriverRunner::end_cell() {
  for (auto& pipe : io_->pipes) emit_held(*pipe, true);
  static_cast<void>(::ftruncate(io_->code.get(), 0));
  io_->interrupt_again.cancel();
  const auto ended = std::exchange(cell_, nullptr);
  ended->finish();
  on_room();  // nothing is held back between cells
}

// ---- output

void DriverRunner::arm(Pipe& pipe) {
  pipe.wait([self = shared_from_this(), &pipe](boost::system::error_code stopped) {
    if (!stopped && !self->no_more_) self->on_readable(pipe);
  });
}

bool DriverRunner::congested() const { return cell_ && cell_->log()->congested(); }

void DriverRunner::on_readable(Pipe& pipe) {
  if (congested()) {
    pipe.blocked = blocked_ = true;
    return;
  }
  const std::size_t n = consume(pipe, host_.buffer().size());
  pipe.left -= std::min(pipe.left, n);
  if (cell_) cell_->publish();
  if (!messages_.empty()) take_messages();
  if (pipe.file.is_open()) arm(pipe);
}

// Reads once; closes the pipe at its end. Returns how much it was.
std::size_t DriverRunner::consume(Pipe& pipe, std::size_t limit) {
  const std::string_view bytes = pipe.read(host_.buffer(), limit);
  if (!bytes.empty()) sink(pipe, bytes);
  return bytes.size();
}

void DriverRunner::sink(Pipe& pipe, std::string_view bytes) {
  if (!ready_) {
    startup_text_.append(bytes.substr(0, kStartupText - std::min(kStartupText, startup_text_.size())));
    return;
  }
  if (!cell_) return;
  if (!pipe.held.empty()) {
    pipe.held += bytes;
    bytes = pipe.held;
  }
  const std::size_t line_end = bytes.find_last_of("\n\r");
  std::size_t whole = line_end == std::string_view::npos ? 0 : line_end + 1;
  if (bytes.size() - whole > kMaxPartialLine) whole = complete_utf8(bytes);
  cell_->output(pipe.is_stderr, bytes.substr(0, whole));
  pipe.held = std::string(bytes.substr(whole));
  if (!pipe.held.empty()) hold_for_a_moment();
}

void DriverRunner::emit_held(Pipe& pipe, bool all) {
  const std::size_t whole = all ? pipe.held.size() : complete_utf8(pipe.held);
  if (cell_) cell_->output(pipe.is_stderr, std::string_view(pipe.held).substr(0, whole));
  pipe.held.erase(0, whole);
}

void DriverRunner::hold_for_a_moment() {
  if (std::exchange(io_->timer_armed, true)) return;
  io_->timer.expires_after(kPartialLine);
  io_->timer.async_wait([self = shared_from_this()](boost::system::error_code stopped) {
    if (stopped || self->gone_) return;
    self->io_->timer_armed = false;
    for (auto& pipe : self->io_->pipes) self->emit_held(*pipe, false);
    if (self->cell_) self->cell_->publish();
  });
}

// ---- messages

void DriverRunner::arm_socket() {
  if (!io_->socket.is_open() || std::exchange(io_->socket_armed, true)) return;
  io_->socket.async_wait(net::posix::stream_descriptor::wait_read,
                         [self = shared_from_this()](boost::system::error_code stopped) {
                           if (self->gone_) return;
                           self->io_->socket_armed = false;
                           if (stopped || self->no_more_) return;
                           self->read_socket();
                           self->take_messages();
                         });
}

// Reads once. Closes the socket at its end, and when what comes is no message of the protocol.
std::size_t DriverRunner::read_socket() {
  const std::span<char> buffer = host_.buffer();
  const ssize_t n = ::recv(io_->socket.native_handle(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  if (n <= 0) {
    io_->socket.close();
    if (!exited_) expect_exit();
    return 0;
  }
  if (auto fed = decoder_.feed({buffer.data(), static_cast<std::size_t>(n)}, messages_); !fed) {
    if (!exited_) kill(fed.error().message);
    io_->socket.close();  // not sooner: the process may end by itself when its connection does
    return 0;
  }
  for (auto& pipe : io_->pipes) pipe->count_rest();
  return static_cast<std::size_t>(n);
}

// The socket of a process that ends is closed a moment before its end is known.
void DriverRunner::expect_exit() {
  io_->timer.expires_after(kExit);
  io_->timer_armed = true;
  io_->timer.async_wait([self = shared_from_this()](boost::system::error_code stopped) {
    if (!stopped) self->kill("it closed its connection to execd");
  });
}

void DriverRunner::take_messages() {
  while (drain() && !messages_.empty()) {
    DriverMessage message = std::move(messages_.front());
    messages_.pop_front();
    handle(std::move(message));
  }
  if (blocked_) return;
  if (cell_) cell_->publish();
  if (no_more_) return close();
  arm_socket();
}

// Takes the output that came before the newest message. False: the reader has to catch up first.
bool DriverRunner::drain() {
  for (auto& pipe : io_->pipes) {
    const bool taken = pipe->take_rest([this] { return congested(); },
                                       [&](std::size_t limit) {
                                         const std::size_t n = consume(*pipe, limit);
                                         if (cell_) cell_->publish();
                                         return n;
                                       });
    if (!taken) {
      blocked_ = true;
      return false;
    }
  }
  return true;
}

void DriverRunner::handle(DriverMessage message) {
  using Type = DriverMessage::Type;
  if (message.type == Type::Ready) {
    if (std::exchange(ready_, true)) return;
    startup_text_ = std::string();
    if (const auto tell = std::exchange(on_ready_, nullptr)) tell(&message.data);
    changed_.notify_all();
    if (cell_ && !exited_) request_run();  // not sooner: the interpreter's output at its start is not the cell's output
    return;
  }
  if (!cell_ || message.run != cell_->number()) return;  // of a run that is over
  switch (message.type) {
    case Type::Ready:
      return;
    case Type::Started:
      if (std::exchange(started_, true)) return;
      if (interrupt_wanted_) begin_interrupt();
      return;
    case Type::Deaf: {
      started_ = false;
      deaf_once_ = true;
      const std::string answer = concat("deaf ", message.run, " ", interrupts_, "\n");
      // It has no room only where the code forges such messages, and does not read the answers.
      static_cast<void>(::send(io_->answers.get(), answer.data(), answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
      return;
    }
    case Type::Result:
    case Type::Display:
      for (auto& pipe : io_->pipes) emit_held(*pipe, false);
      cell_->result(message.data, message.type == Type::Display);
      if (message.type == Type::Display && !exited_ && !send("shown\n")) kill("it does not take answers any more");
      return;
    case Type::Error:
      for (auto& pipe : io_->pipes) emit_held(*pipe, true);
      return cell_->error(message.ename, message.evalue, message.traceback);
    case Type::Done:
      if (message.status != 0) {
        const bool interrupted = interrupt_wanted_ && message.status == 128 + SIGINT;
        const std::string text = concat("exit status ", message.status);
        cell_->error(interrupted ? std::string_view("KeyboardInterrupt") : kCommandError,
                     interrupted ? std::string("the code was interrupted") : std::to_string(message.status),
                     std::vector<std::string>{text});
      }
      return end_cell();
  }
}

void DriverRunner::on_room() {
  if (!std::exchange(blocked_, false)) return;
  // Not at once: the reader that made room is in the middle of taking events.
  net::post(host_.executor(), [self = shared_from_this()] {
    if (self->gone_) return;
    for (auto& pipe : self->io_->pipes) {
      if (std::exchange(pipe->blocked, false) && pipe->file.is_open() && !self->no_more_) self->arm(*pipe);
    }
    self->take_messages();
  });
}

// ---- the end

sys::ProcessTree DriverRunner::tree() const {
  sys::ProcessTree tree;
  tree.leader = pid_;
  tree.leader_start = start_time_;
  tree.marker = concat(kRunIdVariable, "=", marker_);
  tree.cgroup = cgroup_.get();
  return tree;
}

// A process may have ended before its end was reported to us.
bool DriverRunner::has_ended() const {
  siginfo_t info{};
  if (pid_ < 0) return exited_;
  return exited_ || ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) < 0 ||
         info.si_pid == pid_;
}

void DriverRunner::kill(std::string why) {
  if (has_ended() || !kill_reason_.empty()) return;
  kill_reason_ = std::move(why);
  if (pid_ > 0) kill_all();
}

void DriverRunner::kill_all() {
  ::kill(-pid_, SIGSTOP);  // no fork can outrun this call
  host_.pool().post([tree = tree(), cgroup = cgroup_, self = shared_from_this(), home = host_.executor()]() mutable {
    static_cast<void>(sys::kill_tree(tree));
    net::post(home, [self = std::move(self), cgroup = std::move(cgroup)] {});
  });
}

void DriverRunner::on_exit(sys::ExitStatus status) {
  exited_ = true;
  status_ = status;
  if (const auto tell = std::exchange(on_ready_, nullptr)) tell(nullptr);
  if (kill_reason_.empty()) reason_ = host_.oom_kills().explain(oom_mark_, status);
  // Its children are killed with it: they belong to a state that is gone.
  host_.pool().post([rest = tree(), cgroup = cgroup_, self = shared_from_this(), home = host_.executor()]() mutable {
    static_cast<void>(sys::kill_tree(rest));
    net::post(home, [self = std::move(self), cgroup = std::move(cgroup)] { self->after_exit(); });
  });
}

void DriverRunner::after_exit() {
  no_more_ = true;
  cgroup_.reset();
  if (io_->socket.is_open()) io_->socket.cancel();
  for (auto& pipe : io_->pipes) {
    if (pipe->file.is_open()) pipe->file.cancel();
  }
  for (std::size_t taken = 0; io_->socket.is_open() && taken < kMaxLastBytes;) {
    const std::size_t n = read_socket();
    if (n == 0) break;
    taken += n;
  }
  for (auto& pipe : io_->pipes) pipe->count_rest();
  blocked_ = false;
  take_messages();
}

std::string DriverRunner::end_text() const {
  if (alive()) return {};
  std::string text = concat("the ", language_.name(), " process of this context ");
  if (!start_error_.empty()) return concat(text, "was not started: ", start_error_);
  if (!kill_reason_.empty()) return concat(text, "was killed: ", kill_reason_);
  const Outcome outcome = outcome_of(status_);
  text += concat("ended (", outcome.error.empty() ? "exit status 0" : outcome.error, ")");
  if (reason_) text += ", " + reason_->message;
  if (!ready_ && !startup_text_.empty()) text += concat(" before it took code: ", startup_text_);
  return text;
}

void DriverRunner::close() {
  if (std::exchange(gone_, true)) return;
  for (auto& pipe : io_->pipes) emit_held(*pipe, true);
  io_->timer.cancel();
  io_->interrupt_again.cancel();
  if (const auto cell = std::exchange(cell_, nullptr)) {
    cell->fail(kill_reason_.empty() ? kKernelDied : kKernelKilled,
               end_text() + ". Its state is gone; the next run starts with a new process.", reason_);
  }
  io_->socket.close();
  for (auto& pipe : io_->pipes) pipe->file.close();
  io_->code.reset();
  changed_.notify_all();
}

net::awaitable<Result<void>> DriverRunner::ready(std::chrono::milliseconds limit) {
  const auto self = shared_from_this();
  const auto wait = [](DriverRunner& runner) -> net::awaitable<Result<void>> {
    co_await runner.changed_.wait_until([&runner] { return runner.ready_ || runner.gone_; });
    co_return Result<void>();
  };
  if (!ready_ && !gone_) co_await with_timeout(wait(*this), limit);
  if (ready_) co_return Result<void>();
  if (gone_) co_return fail(Code::Internal, end_text());
  co_return fail(Code::Timeout,
                 concat("the ", language_.name(), " process takes no code after ", limit.count(), " ms"));
}

net::awaitable<void> DriverRunner::wait_gone() {
  const auto self = shared_from_this();
  co_await changed_.wait_until([this] { return gone_; });
}

}  // namespace osb::execd
