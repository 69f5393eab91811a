#pragma once

#include <opensandbox/pty.h>
#include <optional>
#include <string>

#include "cli/command_io.h"
#include "cli/problem.h"
#include "cli/terminal/detach_keys.h"
#include "cli/terminal/signal_fd.h"

namespace osb::cli {

// How a terminal in a sandbox was left.
struct TerminalEnd {
  enum class Kind {
    Exited,     // what ran in it has ended: exit_code
    Detached,   // by the detach keys
    Signalled,  // SIGTERM to us, or SIGHUP, or our own terminal has gone: signal
    TakenOver,  // by another client
    Lost,       // no connection for too long
  };
  Kind kind = Kind::Exited;
  int exit_code = 0;
  int signal = 0;
  std::string message = {};  // of Lost
};

// osb's exit code after a program in a terminal: the program's code, or 128 + N for signal N as in shells.
int exit_code_of(const opensandbox::PtyFrame& exit);

// Whether the next attempt to connect may succeed. 5xx: the server's proxy did not get through.
bool may_come_back(const opensandbox::Error& error);

// The signals that run_terminal() looks at.
SignalFd terminal_signals();

struct TerminalOptions {
  DetachKeys detach;
  bool takeover = false;
};

// Connects the user's terminal with the one in the sandbox until one of them ends or detaches. Keys go there as they
// are, Ctrl-C too; the size follows ours. A connection that breaks is made again and continues where it was. The user's
// terminal is as before when this returns, in every case. `signals` was made before the connection to the server.
Expected<TerminalEnd> run_terminal(const CommandIo& context, const opensandbox::Ptys& ptys, const std::string& pty,
                                   TerminalOptions options, SignalFd& signals);

}  // namespace osb::cli
