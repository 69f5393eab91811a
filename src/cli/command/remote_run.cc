#include "cli/command/remote_run.h"

#include <csignal>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace osb::cli {

using opensandbox::ExecutionEvent;

int signal_of_text(std::string_view text) {
  constexpr std::string_view kPrefix = "signal: ";
  if (!text.starts_with(kPrefix)) return 0;
  text.remove_prefix(kPrefix.size());
  constexpr std::pair<std::string_view, int> kNames[] = {{"hangup", SIGHUP},
                                                         {"interrupt", SIGINT},
                                                         {"quit", SIGQUIT},
                                                         {"illegal instruction", SIGILL},
                                                         {"trace/breakpoint trap", SIGTRAP},
                                                         {"aborted", SIGABRT},
                                                         {"bus error", SIGBUS},
                                                         {"floating point exception", SIGFPE},
                                                         {"killed", SIGKILL},
                                                         {"user defined signal 1", SIGUSR1},
                                                         {"segmentation fault", SIGSEGV},
                                                         {"user defined signal 2", SIGUSR2},
                                                         {"broken pipe", SIGPIPE},
                                                         {"alarm clock", SIGALRM},
                                                         {"terminated", SIGTERM}};
  for (const auto& [name, number] : kNames) {
    if (text.starts_with(name)) return number;
  }
  return 0;
}

RemoteRun::RemoteRun(CommandIo& context, Output output)
    : context_(context),
      output_(output),
      signals_({SIGINT, SIGTERM}),
      stop_(::eventfd(0, EFD_CLOEXEC)),
      thread_([this] { wait_for_signals(); }) {}

RemoteRun::~RemoteRun() {
  (void)::eventfd_write(stop_.get(), 1);
  thread_.join();
}

void RemoteRun::wait_for_signals() {
  for (;;) {
    pollfd waits[] = {{signals_.fd(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    if (::poll(waits, 2, -1) < 0) continue;
    if (waits[1].revents != 0) return;
    const auto signal = signals_.take();
    if (!signal) continue;
    std::unique_lock lock(mutex_);
    const bool again = signal_.exchange(*signal) != 0;
    if (again || execution_id_.empty()) ::_exit(exit_code_of_signal(*signal));
    const std::string id = execution_id_;
    lock.unlock();
    interrupt_(id);  // the stream tells how it ended
  }
}

bool RemoteRun::write(const ExecutionEvent& event) {
  if (output_ == Output::Kept) return true;
  const bool to_stdout = event.type == ExecutionEvent::Type::Stdout;
  if (!to_stdout && event.type != ExecutionEvent::Type::Stderr) return true;
  std::FILE* const file = (to_stdout ? context_.out().out() : context_.out().err()).file;
  const std::string line = pieces_ ? event.text : event.line();
  std::fwrite(line.data(), 1, line.size(), file);
  std::fflush(file);
  if (std::ferror(file) == 0) return true;
  return output_lost_ = true, false;
}

opensandbox::ExecutionHandlers RemoteRun::handlers(opensandbox::Commands commands) {
  return handlers([commands = std::move(commands)](const std::string& id) { (void)commands.interrupt(id); });
}

opensandbox::ExecutionHandlers RemoteRun::handlers(opensandbox::CodeInterpreter code) {
  pieces_ = true;
  return handlers([code = std::move(code)](const std::string& id) { (void)code.interrupt(id); });
}

opensandbox::ExecutionHandlers RemoteRun::handlers(std::function<void(const std::string& id)> interrupt) {
  {
    const std::lock_guard lock(mutex_);
    interrupt_ = std::move(interrupt);
  }
  opensandbox::ExecutionHandlers out;
  out.on_event = [this](const ExecutionEvent& event) {
    if (event.type == ExecutionEvent::Type::Init) {
      const std::lock_guard lock(mutex_);
      execution_id_ = event.text;
    }
    if (event.type == ExecutionEvent::Type::Gap) {
      context_.out().error_text("osb: the connection was lost for too long; some output is missing here\n");
    }
    return write(event);
  };
  return out;
}

namespace {

int ended_by(const ExecutionEvent::ErrorInfo& error) {
  for (const std::string& line : error.traceback) {
    if (const int signal = signal_of_text(line); signal != 0) return signal;
  }
  return 0;
}

}  // namespace

Outcome RemoteRun::finish(const opensandbox::Result<opensandbox::Execution>& run) {
  if (output_lost_) {
    // The reader of the output has gone (head), so the command must not go on.
    if (!execution_id_.empty()) interrupt_(execution_id_);
    return exit_code_of_signal(SIGPIPE);
  }
  const auto incomplete = [this](std::string why) {
    return failed(Problem{"Execution Incomplete", "EXECUTION_INCOMPLETE", std::move(why),
                          "Look with 'osb command status SANDBOX_ID " + execution_id_ + "'."});
  };
  if (!run) {
    const bool began = run.error().kind == opensandbox::ErrorKind::Network && !execution_id_.empty();
    return began ? incomplete(run.error().message) : sdk_failed(context_, run.error());
  }
  // A command that this user's Ctrl-C interrupted needs no explanation.
  if (run->error && !run->error->reason_message.empty() && signal_ == 0) {
    context_.out().error_text("osb: " + run->error->reason_message + "\n");
  }
  if (run->exit_code && *run->exit_code >= 0 && *run->exit_code <= 255) return *run->exit_code;
  if (run->error) {
    // It was ended by a signal: ours, or one that execd names.
    if (const int signal = signal_ != 0 ? signal_.load() : ended_by(*run->error); signal != 0) {
      return exit_code_of_signal(signal);
    }
    return failed(Problem{"Execution Error", "EXECUTION_ERROR", run->error->name + ": " + run->error->value});
  }
  if (run->exit_code) return 1;
  return incomplete("The output stream ended before the command finished, so its result is unknown.");
}

}  // namespace osb::cli
