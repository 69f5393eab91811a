#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <opensandbox/code.h>
#include <opensandbox/commands.h>
#include <string>
#include <thread>

#include "base/unique_fd.h"
#include "cli/command_io.h"
#include "cli/terminal/signal_fd.h"

namespace osb::cli {

// The signal that execd names as a command's end ("signal: killed"), 0 when the text is something else.
int signal_of_text(std::string_view text);

// A command of a sandbox in the foreground: its output goes to ours as it comes, line by line, and Ctrl-C goes to it
// (a second one ends osb at once). Make it before the connection: see SignalFd.
class RemoteRun {
 public:
  enum class Output { Shown, Kept };  // Kept: the Execution has it, nothing is written here
  explicit RemoteRun(CommandIo& context, Output output = Output::Shown);
  ~RemoteRun();
  RemoteRun(const RemoteRun&) = delete;
  RemoteRun& operator=(const RemoteRun&) = delete;

  // For Commands::run, follow and Sessions::run, with discard_output. `commands` is where a signal is sent to.
  opensandbox::ExecutionHandlers handlers(opensandbox::Commands commands);
  // The same for CodeInterpreter::run.
  opensandbox::ExecutionHandlers handlers(opensandbox::CodeInterpreter code);

  // osb's exit code: the command's own where it has one. Nothing is written about a command that just failed, so that
  // stderr is the command's.
  Outcome finish(const opensandbox::Result<opensandbox::Execution>& run);
  // A signal came and was passed on.
  bool interrupted() const { return signal_ != 0; }

 private:
  void wait_for_signals();
  opensandbox::ExecutionHandlers handlers(std::function<void(const std::string& id)> interrupt);
  bool write(const opensandbox::ExecutionEvent& event);

  CommandIo& context_;
  const Output output_;
  SignalFd signals_;
  UniqueFd stop_;  // an eventfd: the thread is to end
  std::mutex mutex_;
  std::string execution_id_;                              // "" before the command has started
  std::function<void(const std::string& id)> interrupt_;  // guarded like the id
  bool pieces_ = false;                                   // of text, not lines: code
  std::atomic<int> signal_ = 0;                           // that was passed on
  bool output_lost_ = false;
  std::thread thread_;
};

}  // namespace osb::cli
