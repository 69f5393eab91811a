#pragma once

#include <string>

#include "cli/command_io.h"

namespace osb::cli {

// Only sandboxes with a network policy answer about egress and credentials. If the sidecar did not answer, osb asks the
// server once for the sandbox's state, and that becomes the problem; every other outcome stays as it is.
Outcome explain_silence(CommandIo& context, const std::string& sandbox, Outcome outcome);

}  // namespace osb::cli
