#pragma once

#include <chrono>

namespace osb::taskexecutor {

// A task's supervisor: this program again, one small process per task. It is the parent of the task and of all orphans
// that the task leaves, so that it knows the true exit code and can end all of them, also while the executor is being
// replaced. It lives until the last process of the task has ended.
//
// Descriptors that the executor gives it: 1 and 2 the task's output; the others by number:
inline constexpr int kDirectoryFd = 3;  // the task's directory, for the file `exit`
inline constexpr int kGoFd = 4;         // one byte: start. The end of the pipe: the executor has died, do not start
inline constexpr int kReportFd = 5;     // a text: why the task did not start; its end without a text: it runs
inline constexpr int kFirstNamespaceFd = 6;

// Arguments: --supervise, the working directory, the task's cgroup (each may be empty), the number of namespaces, and
// the command. The environment is the task's.
inline constexpr const char* kSuperviseArgument = "--supervise";

// From SIGTERM to SIGKILL.
inline constexpr std::chrono::seconds kGrace{10};

[[noreturn]] void supervise(int argc, char** argv);

}  // namespace osb::taskexecutor
