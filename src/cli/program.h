#pragma once

#include <string>
#include <vector>

#include "cli/args/command.h"
#include "cli/command_io.h"
#include "cli/config/config.h"

namespace osb::cli {

// The whole command line: builds the tree, parses, runs the action, reports what went wrong. Gives back the exit code:
// 0, 1 (a failure), 2 (wrong usage), or the exit code of a command that ran in a sandbox.
int run_program(const std::vector<std::string>& words, const Environment& environment);

// The tree itself, for run_program and for completion.
void add_commands(Command& root, CommandIo& context);

}  // namespace osb::cli
