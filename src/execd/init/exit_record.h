#pragma once

#include <chrono>
#include <string>

#include "base/error.h"
#include "sys/spawn.h"

namespace osb::execd {

// How the user's entrypoint ended, for the program that manages the sandbox from outside.
struct ExitRecord {
  sys::ExitStatus status;
  std::chrono::system_clock::time_point finished_at;
  std::string error;         // why it could not be started; empty otherwise
  bool hook_failed = false;  // it was not started because a lifecycle hook failed; `status` and `error` are the hook's

  // As a shell has it: the code, or 128 + the signal.
  int shell_code() const { return status.signal != 0 ? 128 + status.signal : status.code; }
  // {"code":0,"signal":9,"finished_at":"2025-01-02T03:04:05.6Z"}, with "error" if there was one and "hook_failed":true.
  std::string to_json() const;
};

inline constexpr const char* kExitRecordName = "exit.json";

// Writes DIRECTORY/exit.json so that a reader sees either nothing or all of it, also after a crash of the machine.
// DIRECTORY may be an inherited descriptor, see open_given().
Result<void> write_exit_record(const std::string& directory, const ExitRecord& record);

}  // namespace osb::execd
