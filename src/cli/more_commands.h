#pragma once

#include "cli/args/command.h"
#include "cli/command_io.h"

// Commands that the original lacks; called in commands.cc like the others.
namespace osb::cli {

// terminal/
void add_run_command(Command& root, CommandIo& context);
void add_shell_command(Command& root, CommandIo& context);
// command/
void add_exec_command(Command& root, CommandIo& context);
// code/
void add_code_group(Command& root, CommandIo& context);
// sandbox/
void add_ps_command(Command& root, CommandIo& context);
void add_rm_command(Command& root, CommandIo& context);
// transfer/
void add_cp_command(Command& root, CommandIo& context);
void add_ls_command(Command& root, CommandIo& context);
void add_cat_command(Command& root, CommandIo& context);
// live/
void add_logs_command(Command& root, CommandIo& context);
void add_port_forward_command(Command& root, CommandIo& context);
void add_wait_command(Command& root, CommandIo& context);
void add_top_command(Command& root, CommandIo& context);
// resource/
void add_snapshot_group(Command& root, CommandIo& context);
void add_template_group(Command& root, CommandIo& context);
void add_metadata_group(Command& root, CommandIo& context);
void add_image_group(Command& root, CommandIo& context);
void add_images_command(Command& root, CommandIo& context);
// egress/
void add_credentials_group(Command& root, CommandIo& context);
// policy/
void add_policy_group(Command& root, CommandIo& context);
// local/
void add_up_command(Command& root, CommandIo& context);
void add_down_command(Command& root, CommandIo& context);
void add_doctor_command(Command& root, CommandIo& context);

}  // namespace osb::cli
