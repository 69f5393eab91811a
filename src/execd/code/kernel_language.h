#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "execd/run/environment.h"
#include "sys/spawn.h"

namespace osb::execd {

// The child's descriptors, as the drivers know them. Code comes in a file that execd writes before it asks for a run:
// so a request is one short line for code of any size, and never waits for the kernel.
inline constexpr int kKernelSocket = 3;
inline constexpr int kKernelCode = 4;
inline constexpr int kKernelDriver = 5;

// How the driver of a language is started, and its protocol.
class KernelLanguage {
 public:
  // Null: not one of the languages that execd runs itself.
  static const KernelLanguage* find(std::string_view name);
  // "bash, python": for messages.
  static std::string names();

  std::string_view name() const { return name_; }
  std::string_view driver() const;  // the driver's text

  // The program and its arguments. Fails (Code::Unsupported) if the language is not in the image, saying what to
  // install.
  Result<void> set_program(const Environment& env, sys::SpawnPlan& plan) const;
  // The driver is read from standard input, which is the socket, instead of from kKernelDriver.
  bool driver_on_stdin() const { return shell_; }
  // The message on the socket that runs the code.
  std::string run_request(std::uint64_t run) const;
  // The part of it, in a shell, that reports the end of the run.
  std::string end_request(std::uint64_t run) const;

 private:
  friend struct KernelLanguages;
  std::string_view name_;
  std::string_view driver_file_;
  std::vector<std::string_view> programs_;   // the first that is in PATH
  std::vector<std::string_view> arguments_;  // behind the program's name
  std::string_view install_;
  bool shell_ = false;
};

}  // namespace osb::execd
