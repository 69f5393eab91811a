#include "cli/commands.h"

#include "cli/more_commands.h"
#include "cli/program.h"

namespace osb::cli {

void add_commands(Command& root, CommandIo& context) {
  add_run_command(root, context);
  add_exec_command(root, context);
  add_shell_command(root, context);
  add_ps_command(root, context);
  add_rm_command(root, context);
  add_images_command(root, context);
  add_cp_command(root, context);
  add_ls_command(root, context);
  add_cat_command(root, context);
  add_logs_command(root, context);
  add_port_forward_command(root, context);
  add_wait_command(root, context);
  add_top_command(root, context);
  add_sandbox_group(root, context);
  add_command_group(root, context);
  add_code_group(root, context);
  add_file_group(root, context);
  add_egress_group(root, context);
  add_policy_group(root, context);
  add_credential_vault_group(root, context);
  add_credentials_group(root, context);
  add_snapshot_group(root, context);
  add_template_group(root, context);
  add_metadata_group(root, context);
  add_image_group(root, context);
  add_config_group(root, context);
  add_diagnostics_group(root, context);
  add_devops_group(root, context);
  add_up_command(root, context);
  add_down_command(root, context);
  add_doctor_command(root, context);
  add_skills_group(root, context);
  add_completion(root, context);
}

}  // namespace osb::cli
