#pragma once

#include "cli/args/command.h"
#include "cli/command_io.h"

namespace osb::cli {

// osb policy suggest: the smallest template that allows what a sandbox has asked for.
void add_policy_suggest(Command& group, CommandIo& context);

}  // namespace osb::cli
