#pragma once

#include "cli/args/command.h"
#include "cli/context.h"

// Commands that the original lacks; called in commands.cc like the others.
namespace osb::cli {

// terminal/
void add_run_command(Command& root, Context& context);
void add_shell_command(Command& root, Context& context);
// command/
void add_exec_command(Command& root, Context& context);
// sandbox/
void add_ps_command(Command& root, Context& context);
void add_rm_command(Command& root, Context& context);
// transfer/
void add_cp_command(Command& root, Context& context);
void add_ls_command(Command& root, Context& context);
void add_cat_command(Command& root, Context& context);
// live/
void add_logs_command(Command& root, Context& context);
void add_port_forward_command(Command& root, Context& context);
void add_wait_command(Command& root, Context& context);
void add_top_command(Command& root, Context& context);
// resource/
void add_snapshot_group(Command& root, Context& context);
void add_metadata_group(Command& root, Context& context);
void add_image_group(Command& root, Context& context);
void add_images_command(Command& root, Context& context);
// local/
void add_up_command(Command& root, Context& context);
void add_down_command(Command& root, Context& context);
void add_doctor_command(Command& root, Context& context);

}  // namespace osb::cli
