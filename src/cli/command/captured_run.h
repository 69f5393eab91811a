#pragma once

#include <chrono>

#include "cli/command_io.h"
#include "cli/terminal/remote_program.h"

namespace osb::cli {

// Runs a program with empty standard input and prints one document when it has ended: stdout and stderr as text,
// exit_code, reason and reason_message (null where the sandbox does not know why it failed), duration in seconds. The
// exit code is the program's. SIGINT and SIGTERM are passed on to it. `timeout` 0: none.
Outcome run_captured(CommandIo& context, const opensandbox::Sandbox& sandbox, const RemoteProgram& program,
                     std::chrono::milliseconds timeout = {});

}  // namespace osb::cli
