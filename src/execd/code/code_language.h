#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "execd/code/code_runner.h"
#include "execd/run/environment.h"
#include "sys/spawn.h"

namespace osb::execd {

// The child's descriptors, as the drivers know them. Code comes in a file that execd writes before it asks for a run:
// so a request is one short line for code of any size, and never waits for the runner.
inline constexpr int kKernelSocket = 3;
inline constexpr int kKernelCode = 4;
inline constexpr int kKernelDriver = 5;
inline constexpr int kKernelAnswers = 6;  // of drivers that cannot wait for an answer on the socket

// How the driver of a language is started, and its protocol.
class CodeLanguage {
 public:
  // Null: not one of the languages that execd runs itself.
  static const CodeLanguage* find(std::string_view name);
  // "bash, python": for messages.
  static std::string names();

  std::string_view name() const { return name_; }
  std::string_view driver() const;  // the driver's text
  // The text of a process from which kernels are forked (PreparedKernel), where the language has one.
  bool has_prepared_driver() const { return !prepare_file_.empty(); }
  std::string prepared_driver() const;

  // The program and its arguments. Fails (Code::Unsupported) if the language is not in the image, saying what to
  // install.
  Result<void> set_program(const Environment& env, sys::SpawnPlan& plan) const;
  // The file that a process which has compiled the driver hands over ("": none), and the arguments of a process that
  // has an archive with this file as kKernelDriver instead of the text.
  std::string_view compiled_file() const { return compiled_file_; }
  void start_compiled(const Environment& env, sys::SpawnPlan& plan) const;
  // The driver is read from standard input, which is the socket, instead of from kKernelDriver.
  bool driver_on_stdin() const { return shell_; }
  bool has_answers() const { return answers_; }
  // A directory and variables can be set for a single run.
  bool takes_run_settings() const { return run_settings_; }
  // The text in front of the code in its file.
  std::string code_head(const RunSettings& settings) const;
  // The message on the socket that runs the code; `head` is the size of the text in front of it. `interrupts`: how many
  // the process was sent so far. A driver that hears of them late begins when it has heard of all, because they were
  // meant for earlier runs.
  std::string run_request(std::uint64_t run, std::size_t head, std::uint64_t interrupts) const;
  // The part of it, in a shell, that reports the end of the run and undoes its settings.
  std::string end_request(std::uint64_t run) const;

 private:
  friend struct CodeLanguages;
  std::string_view name_;
  std::string_view driver_file_;
  std::string_view prepare_file_;            // stands in front of it in a prepared process
  std::vector<std::string_view> programs_;   // the first that is in PATH
  std::vector<std::string_view> arguments_;  // behind the program's name
  std::vector<std::string_view> from_text_;  // behind those, where it compiles the driver
  std::string_view compiled_file_;
  std::string script_;  // for sh, where the program cannot read the driver from kKernelDriver
  std::string_view install_;
  bool shell_ = false;
  bool run_settings_ = true;
  bool answers_ = false;
};

}  // namespace osb::execd
