#pragma once

#include "cli/command_io.h"
#include "cli/terminal/remote_program.h"
#include "cli/terminal/signal_fd.h"

namespace osb::cli {

// Runs a program in a sandbox with its standard output and error apart and byte for byte, and gives back its exit code
// (128 + N where signal N ended it, there or here). SIGINT, SIGTERM, SIGHUP and SIGQUIT are passed on to the program;
// if that does not end it soon, or one comes again, we do not wait for it any longer. A reader of ours that goes away
// ends it like SIGPIPE. `with_input`: its standard input is ours (see PipedInput); otherwise empty.
Outcome run_piped(CommandIo& context, const opensandbox::Sandbox& sandbox, const RemoteProgram& program,
                  bool with_input, SignalFd& signals);

}  // namespace osb::cli
