#include "cli/terminal/terminal_session.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "base/backoff.h"
#include "base/deadline.h"
#include "cli/terminal/raw_terminal.h"
#include "cli/terminal/typed_input.h"
#include "sys/pty.h"

namespace osb::cli {
namespace {

using opensandbox::PtyConnection;
using opensandbox::PtyFrame;
using Kind = TerminalEnd::Kind;

constexpr std::chrono::milliseconds kForever(-1);
constexpr std::chrono::seconds kReconnectFor(60);
constexpr std::chrono::milliseconds kFirstPause(100), kLongestPause(2000);
constexpr std::chrono::milliseconds kLastWords(1000);  // of a program that has ended: its output is still on its way
constexpr const char* kEndedUnseen = "the program in it has ended while there was no connection";

// One connection after the other until there is an end.
class TerminalLoop {
 public:
  TerminalLoop(const opensandbox::Ptys& ptys, const std::string& pty, TerminalOptions options, SignalFd& signals,
               RawTerminal& terminal, UniqueFd tty)
      : ptys_(ptys),
        pty_(pty),
        options_(std::move(options)),
        signals_(signals),
        terminal_(terminal),
        tty_(std::move(tty)) {
    ::fcntl(tty_.get(), F_SETFL, ::fcntl(tty_.get(), F_GETFL) | O_NONBLOCK);
  }

  TerminalEnd run(PtyConnection first) {
    follow_size();
    std::optional<PtyConnection> connection = std::move(first);
    for (;;) {
      input_.connect(&*connection);
      while (!end_ && !broken_) {
        const bool silent = !step(&*connection, ended_unseen_ ? kLastWords : kForever);
        if (silent && ended_unseen_) finish({.kind = Kind::Lost, .message = kEndedUnseen});
      }
      offset_ = connection->offset();
      connection->detach();
      input_.connect(nullptr);
      connection.reset();
      if (end_) break;
      connection = reconnect();
      if (!connection) break;
      broken_ = false;
    }
    flush();
    return *end_;
  }

 private:
  // Waits for something, for at most `pause`, and handles it. False: nothing came.
  bool step(PtyConnection* connection, std::chrono::milliseconds pause) {
    // Output that the terminal has not taken yet stops reading from the sandbox; unsent input stops reading the
    // keyboard.
    const bool writing = !output_.empty();
    const short keys = input_.full() ? 0 : POLLIN;
    std::array<pollfd, 4> waits{
        pollfd{tty_.get(), static_cast<short>(keys | (writing ? POLLOUT : 0)), 0}, pollfd{signals_.fd(), POLLIN, 0},
        pollfd{connection != nullptr && !writing ? connection->poll_fd() : -1, POLLIN, 0},
        pollfd{input_.room_fd(), POLLIN, 0},  // only wakes us
    };
    const int ready = ::poll(waits.data(), waits.size(), static_cast<int>(pause.count()));
    if (ready <= 0) return ready < 0;
    if (waits[3].revents != 0) input_.clear_room();
    if (waits[1].revents != 0) take_signals();
    if ((waits[0].revents & POLLOUT) != 0) write_some();
    if ((waits[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0) read_keys();
    if (waits[2].revents != 0) read_frames(*connection);
    return true;
  }

  void take_signals() {
    while (const auto signal = signals_.take()) {
      switch (*signal) {
        case SIGWINCH:
          follow_size();
          break;
        case SIGTSTP:  // not typed (that goes to the sandbox) but sent by kill(2)
          terminal_.restore();
          ::raise(SIGSTOP);
          [[fallthrough]];
        case SIGCONT:
          terminal_.enter();
          follow_size();
          break;
        default:
          finish({.kind = Kind::Signalled, .signal = *signal});
      }
    }
  }

  void follow_size() {
    if (const auto size = sys::window_size(tty_.get()); size && size->columns > 0 && size->rows > 0) {
      input_.resize(size->columns, size->rows);
    }
  }

  void read_keys() {
    std::array<char, 16 * 1024> buffer;
    const ssize_t got = ::read(tty_.get(), buffer.data(), buffer.size());
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) return finish({.kind = Kind::Signalled, .signal = SIGHUP});  // the terminal has gone
    std::string keys;
    const bool detached = options_.detach.feed({buffer.data(), static_cast<std::size_t>(got)}, keys);
    if (!keys.empty()) input_.send(std::move(keys));
    if (detached) finish({.kind = Kind::Detached});
  }

  void read_frames(PtyConnection& connection) {
    auto frame = connection.read(std::chrono::milliseconds(0));
    if (!frame) return lost(frame.error());
    if (!*frame) return;
    switch ((*frame)->type) {
      case PtyFrame::Type::Stdout:
      case PtyFrame::Type::Stderr:
      case PtyFrame::Type::Replay:
        if ((*frame)->type == PtyFrame::Type::Replay && (*frame)->offset > offset_ && offset_ > 0) {
          output_ += "\r\nosb: some output is gone\r\n";
        }
        output_ += (*frame)->data;
        return write_some();
      case PtyFrame::Type::Exit:
        if (!(*frame)->reason_message.empty()) output_ += "\r\nosb: " + (*frame)->reason_message + "\r\n";
        return finish({.kind = Kind::Exited, .exit_code = exit_code_of(**frame)});
      case PtyFrame::Type::Error:
        if ((*frame)->code != "TAKEN_OVER") output_ += "\r\nosb: " + (*frame)->data + "\r\n";
        return;
      case PtyFrame::Type::Connected:
      case PtyFrame::Type::Input:
      case PtyFrame::Type::Pong:
        return;
    }
  }

  void lost(const opensandbox::Error& error) {
    if (error.kind == opensandbox::ErrorKind::Network) {
      broken_ = true;
    } else if (error.code == "TAKEN_OVER") {
      finish({.kind = Kind::TakenOver});
    } else {
      finish({.kind = Kind::Lost, .message = error.message});
    }
  }

  void write_some() {
    while (!output_.empty()) {
      const ssize_t put = ::write(tty_.get(), output_.data(), output_.size());
      if (put < 0 && errno == EINTR) continue;
      if (put < 0 && errno == EAGAIN) return;
      if (put < 0) {
        output_.clear();
        return finish({.kind = Kind::Signalled, .signal = SIGHUP});
      }
      output_.erase(0, static_cast<std::size_t>(put));
    }
  }

  // Writes the rest of the output, as long as the terminal takes any.
  void flush() {
    while (!output_.empty()) {
      pollfd wait{tty_.get(), POLLOUT, 0};
      if (::poll(&wait, 1, 1000) <= 0 || (wait.revents & POLLOUT) == 0) return;
      write_some();
    }
  }

  // A program that has ended must not be started again. So its status is asked before, because not every execd knows
  // `start`, and again when attached: if it ends after that, a frame says so.
  opensandbox::Result<PtyConnection> attach_again() {
    const auto before = ptys_.status(pty_);
    if (!before) return std::unexpected(before.error());
    if (!before->running) {
      return std::unexpected(opensandbox::Error{.kind = opensandbox::ErrorKind::Cancelled, .message = kEndedUnseen});
    }
    opensandbox::PtyAttachOptions options;
    options.since = offset_;
    options.takeover = true;  // ours may still count as attached over there
    options.start = false;
    auto again = ptys_.attach(pty_, options);
    if (!again) return again;
    const auto now = ptys_.status(pty_);
    if (!now) return std::unexpected(now.error());
    ended_unseen_ = !now->running;
    return again;
  }

  std::optional<PtyConnection> reconnect() {
    const Deadline deadline(kReconnectFor);
    output_ += "\r\nosb: the connection was lost, trying again\r\n";
    for (Backoff pause(kFirstPause, kLongestPause);;) {
      auto again = attach_again();
      if (again) return std::move(*again);
      if (!may_come_back(again.error()) || deadline.passed()) {
        finish({.kind = Kind::Lost, .message = again.error().message});
        return std::nullopt;
      }
      const Deadline next(pause.next());
      while (!end_ && !next.passed()) step(nullptr, next.left());
      if (end_) return std::nullopt;
    }
  }

  void finish(TerminalEnd end) {
    if (!end_) end_ = std::move(end);
  }

  const opensandbox::Ptys& ptys_;
  const std::string& pty_;
  TerminalOptions options_;
  SignalFd& signals_;
  RawTerminal& terminal_;
  UniqueFd tty_;
  TypedInput input_;
  std::string output_;
  std::uint64_t offset_ = 0;
  bool broken_ = false;
  bool ended_unseen_ = false;
  std::optional<TerminalEnd> end_;
};

}  // namespace

bool may_come_back(const opensandbox::Error& error) {
  return error.kind == opensandbox::ErrorKind::Network || error.status >= 500;
}

int exit_code_of(const PtyFrame& exit) {
  if (exit.signal != 0) return exit_code_of_signal(exit.signal);
  return exit.exit_code < 0 ? 255 : exit.exit_code;
}

SignalFd terminal_signals() { return SignalFd({SIGWINCH, SIGTSTP, SIGCONT, SIGINT, SIGTERM, SIGHUP, SIGQUIT}); }

Expected<TerminalEnd> run_terminal(const CommandIo& context, const opensandbox::Ptys& ptys, const std::string& pty,
                                   TerminalOptions options, SignalFd& signals) {
  auto tty = RawTerminal::another_descriptor();
  if (!tty) return failed(tty.error());
  auto connection = ptys.attach(pty, {.mode = {}, .since = 0, .takeover = options.takeover});
  if (!connection) return sdk_failed(context, connection.error());
  auto terminal = RawTerminal::open();
  if (!terminal) return failed(terminal.error());
  TerminalLoop loop(ptys, pty, std::move(options), signals, *terminal, std::move(*tty));
  return loop.run(std::move(*connection));
}

}  // namespace osb::cli
