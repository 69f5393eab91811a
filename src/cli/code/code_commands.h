#pragma once

#include <string>
#include <vector>

#include "cli/args/command.h"
#include "cli/command_io.h"

namespace osb::cli {

// That -l takes.
const std::vector<std::string>& code_languages();

void add_code_repl(Command& group, CommandIo& context);

}  // namespace osb::cli
