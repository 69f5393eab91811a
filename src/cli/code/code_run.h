#pragma once

#include <opensandbox/code.h>
#include <string>

#include "cli/code/pictures.h"
#include "cli/command/remote_run.h"

namespace osb::cli {

// Runs code and shows its output as it comes, then its values; or prints one document at the end where the output is
// structured. 0: it ended well, 1: the code failed and its traceback was shown.
Outcome run_code(CommandIo& context, RemoteRun& remote, const opensandbox::CodeInterpreter& code,
                 const std::string& text, opensandbox::RunCodeOptions wanted, Pictures& pictures);

// Output of RemoteRun for run_code().
inline RemoteRun::Output code_output(CommandIo& context) {
  return context.out().structured() ? RemoteRun::Output::Kept : RemoteRun::Output::Shown;
}

}  // namespace osb::cli
