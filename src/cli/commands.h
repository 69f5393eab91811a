#pragma once

#include "cli/args/command.h"
#include "cli/context.h"

// Every add_ function of the program: one per group or command, each in a file of its own, listed here and called in
// commands.cc, whose order is the order of `osb --help`.
namespace osb::cli {

void add_config_group(Command& root, Context& context);

}  // namespace osb::cli
