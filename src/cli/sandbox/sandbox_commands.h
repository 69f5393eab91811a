#pragma once

#include "cli/args/command.h"
#include "cli/context.h"

namespace osb::cli {

void add_sandbox_create(Command& group, Context& context);
void add_sandbox_metrics(Command& group, Context& context);

}  // namespace osb::cli
