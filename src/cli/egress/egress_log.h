#pragma once

#include <opensandbox/egress.h>
#include <string>

#include "cli/commands.h"

namespace osb::cli {

// One decision as a line: "2026-11-18T01:02:03Z  deny   12x  example.com  (default)".
std::string decision_line(const opensandbox::EgressDecision& decision);

// osb egress log: names that the sandbox asked for and what became of them.
void add_egress_log(Command& group, CommandIo& context);

}  // namespace osb::cli
