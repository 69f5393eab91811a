#pragma once

#include "cli/args/command.h"
#include "cli/command_io.h"

namespace osb::cli {

void add_sandbox_create(Command& group, CommandIo& context);
void add_sandbox_metrics(Command& group, CommandIo& context);

}  // namespace osb::cli
