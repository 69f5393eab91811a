#pragma once

#include <opensandbox/files.h>
#include <optional>
#include <string>

#include "cli/args/command.h"
#include "cli/command_io.h"

namespace osb::cli {

// --mode, --owner and --group. Without --mode it is 755, as the original has it.
struct PermissionOptions {
  std::optional<Mode> mode;
  std::string owner, group;

  Option& add_to(Command& command) {
    command.option("--owner", "TEXT", "Owner.", owner);
    command.option("--group", "TEXT", "Group.", group);
    return command.option("--mode", "MODE", "Permissions, such as 644.", mode);
  }
  opensandbox::Permission get() const { return {mode ? mode->value : 755, owner, group}; }
};

void add_file_transfers(Command& group, CommandIo& context);  // cat, write, upload, download

}  // namespace osb::cli
