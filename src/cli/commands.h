#pragma once

#include "cli/args/command.h"
#include "cli/command_io.h"

// Every add_ function of the program: one per group or command, each in a file of its own, listed here and called in
// commands.cc, whose order is the order of `osb --help`.
namespace osb::cli {

void add_sandbox_group(Command& root, CommandIo& context);
void add_command_group(Command& root, CommandIo& context);
void add_file_group(Command& root, CommandIo& context);
void add_egress_group(Command& root, CommandIo& context);
void add_credential_vault_group(Command& root, CommandIo& context);
void add_config_group(Command& root, CommandIo& context);
void add_diagnostics_group(Command& root, CommandIo& context);
void add_devops_group(Command& root, CommandIo& context);
void add_skills_group(Command& root, CommandIo& context);
void add_completion(Command& root, CommandIo& context);

}  // namespace osb::cli
