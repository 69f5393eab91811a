#include "cli/terminal/piped_program.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <poll.h>
#include <unistd.h>

#include "base/backoff.h"
#include "base/deadline.h"
#include "cli/terminal/piped_input.h"
#include "cli/terminal/terminal_session.h"

namespace osb::cli {
namespace {

using opensandbox::PtyFrame;

constexpr std::chrono::seconds kGrace(3);  // from a signal to the end of our patience
constexpr std::chrono::seconds kReconnectFor(30);
constexpr std::chrono::milliseconds kLastWords(1000);  // of a command that has ended: its output is still on its way
constexpr std::chrono::milliseconds kFirstPause(100), kLongestPause(2000);

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(put));
    } else if (errno == EAGAIN) {
      pollfd wait{fd, POLLOUT, 0};
      (void)::poll(&wait, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

const char* name_of(int signal) {
  switch (signal) {
    case SIGTERM:
      return "SIGTERM";
    case SIGHUP:
      return "SIGHUP";
    case SIGQUIT:
      return "SIGQUIT";
    default:
      return "SIGINT";
  }
}

class PipedProgram {
 public:
  PipedProgram(CommandIo& context, opensandbox::Ptys ptys, std::string pty, bool with_input, SignalFd& signals)
      : context_(context), ptys_(std::move(ptys)), pty_(std::move(pty)), signals_(signals) {
    if (with_input) input_.emplace();
  }

  Outcome run() {
    opensandbox::PtyAttachOptions pipes;
    pipes.mode = opensandbox::PtyAttachOptions::Mode::Pipes;
    pipes.input_acks = input_.has_value();
    auto connection = ptys_.attach(pty_, pipes);
    if (!connection) return sdk_failed(context_, connection.error());
    for (;;) {
      follow(*connection);
      connection->detach();
      if (input_) input_->connect(nullptr);
      if (outcome_) return *outcome_;
      expected_ = connection->offset();
      auto again = reconnect();
      if (!again) return sdk_failed(context_, again.error());
      connection = std::move(again);
      // A program that has ended meanwhile sends nothing more, so its status is asked now. If it ends later, a frame
      // says so.
      const auto status = ptys_.status(pty_);
      ended_unseen_ = status && !status->running;
    }
  }

 private:
  // Until there is an outcome, or the connection is lost.
  void follow(opensandbox::PtyConnection& connection) {
    while (!outcome_) {
      std::array<pollfd, 2> waits{pollfd{connection.poll_fd(), POLLIN, 0}, pollfd{signals_.fd(), POLLIN, 0}};
      const int ready = ::poll(waits.data(), waits.size(), patience());
      if (ready == 0) give_up();
      if (waits[1].revents != 0) pass_signal_on(connection);
      if (outcome_ || waits[0].revents == 0) continue;
      auto frame = connection.read(std::chrono::milliseconds(0));
      if (!frame) {
        if (frame.error().kind == opensandbox::ErrorKind::Network) return;
        outcome_ = sdk_failed(context_, frame.error());
      } else if (*frame) {
        take(**frame, connection);
      }
    }
  }

  // The program does not end after a signal, or has ended while there was no connection.
  void give_up() {
    if (signal_) {
      outcome_ = exit_code_of_signal(*signal_);
    } else {
      outcome_ = failed(Problem{"", "EXECUTION_INCOMPLETE",
                                "The command ended while the connection was lost, so its exit code is unknown."});
    }
  }

  int patience() const {
    if (!signal_) return ended_unseen_ ? static_cast<int>(kLastWords.count()) : -1;
    return static_cast<int>(deadline_->left().count());
  }

  void pass_signal_on(opensandbox::PtyConnection& connection) {
    while (const auto signal = signals_.take()) {
      if (*signal == SIGWINCH || *signal == SIGCONT || *signal == SIGTSTP) continue;
      if (signal_) outcome_ = exit_code_of_signal(*signal);
      signal_ = signal;
      deadline_.emplace(kGrace);
      (void)connection.signal(name_of(*signal));
    }
  }

  void take(const PtyFrame& frame, opensandbox::PtyConnection& connection) {
    switch (frame.type) {
      case PtyFrame::Type::Stdout:
        return put(STDOUT_FILENO, frame.data);
      case PtyFrame::Type::Stderr:
        return put(STDERR_FILENO, frame.data);
      case PtyFrame::Type::Replay:  // of the time without connection: there it is one stream
        if (frame.offset > expected_) {
          outcome_ =
              failed(Problem{"", "OUTPUT_LOST",
                             "The connection was lost for too long: " + std::to_string(frame.offset - expected_) +
                                 " bytes of output are gone."});
          return;
        }
        expected_ = frame.offset + frame.data.size();
        context_.out().error_text(
            "osb: the connection was lost for a moment; what was written to standard error "
            "meanwhile is on standard output\n");
        return put(STDOUT_FILENO, frame.data);
      case PtyFrame::Type::Exit:
        if (!signal_ && !frame.reason_message.empty()) context_.out().error_text("osb: " + frame.reason_message + "\n");
        outcome_ = signal_ ? exit_code_of_signal(*signal_) : exit_code_of(frame);
        return;
      case PtyFrame::Type::Error:
        context_.out().error_text("osb: " + frame.data + "\n");
        return;
      case PtyFrame::Type::Connected:
        if (input_) start_input(frame, connection);
        return;
      case PtyFrame::Type::Input:
        if (input_ && frame.input_offset) input_->taken(*frame.input_offset);
        if (input_ && frame.input_closed) input_->close();
        return;
      case PtyFrame::Type::Pong:
        return;
    }
  }

  void start_input(const PtyFrame& connected, opensandbox::PtyConnection& connection) {
    if (connected.input_offset) return input_->connect(&connection, *connected.input_offset);
    outcome_ = failed(Problem{"", "UNSUPPORTED", "This sandbox's execd cannot be given standard input.",
                              "Add </dev/null to run the command without any."});
  }

  void put(int fd, std::string_view bytes) {
    if (!write_all(fd, bytes)) outcome_ = exit_code_of_signal(SIGPIPE);
  }

  // A command that has ended must not be started again. Viewers never start one; a connection with input says start=0,
  // which every execd that counts input understands.
  opensandbox::Result<opensandbox::PtyConnection> reconnect() {
    opensandbox::PtyAttachOptions options;
    options.mode = opensandbox::PtyAttachOptions::Mode::Pipes;
    options.since = expected_;
    options.read_only = !input_;
    options.takeover = options.input_acks = input_.has_value();
    options.start = !input_;
    const Deadline deadline(kReconnectFor);
    for (Backoff pause(kFirstPause, kLongestPause);;) {
      auto again = ptys_.attach(pty_, options);
      if (again || !may_come_back(again.error()) || deadline.passed()) return again;
      pollfd wait{signals_.fd(), POLLIN, 0};
      if (::poll(&wait, 1, static_cast<int>(pause.next().count())) > 0) return again;  // a signal came: do not wait
    }
  }

  CommandIo& context_;
  opensandbox::Ptys ptys_;
  std::string pty_;
  SignalFd& signals_;
  std::optional<PipedInput> input_;
  std::optional<Outcome> outcome_;
  std::optional<int> signal_;
  std::uint64_t expected_ = 0;  // where the output continues after a loss
  bool ended_unseen_ = false;
  std::optional<Deadline> deadline_;  // since signal_
};

}  // namespace

Outcome run_piped(CommandIo& context, const opensandbox::Sandbox& sandbox, const RemoteProgram& program,
                  bool with_input, SignalFd& signals) {
  const opensandbox::Ptys ptys = sandbox.ptys();
  auto pty = ptys.create(piped_options(program, with_input));
  if (!pty) return sdk_failed(context, pty.error());
  const Outcome outcome = PipedProgram(context, ptys, *pty, with_input, signals).run();
  (void)ptys.remove(*pty);  // what does not end for us ends now
  return outcome;
}

}  // namespace osb::cli
