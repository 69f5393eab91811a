#include "cli/commands.h"

#include "cli/program.h"

namespace osb::cli {

void add_commands(Command& root, Context& context) { add_config_group(root, context); }

}  // namespace osb::cli
