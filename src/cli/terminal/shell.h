#pragma once

#include <string>

#include "cli/command_io.h"
#include "cli/terminal/remote_program.h"

namespace osb::cli {

struct ShellOptions {
  std::string id;
  RemoteProgram program = {};  // an interactive shell where there are no words
  std::string attach = {};     // a terminal that was left
  std::string detach_keys = "ctrl-p,ctrl-q";
  bool takeover = false;
};

// A terminal in a sandbox, connected with the user's until one of them ends. The exit code is the program's.
Outcome run_shell(CommandIo& context, ShellOptions& options);

}  // namespace osb::cli
