#pragma once

#include <string>

#include "cli/context.h"

namespace osb::cli {

// Only sandboxes with a network policy answer about egress and credentials. Where nobody answered, the server is asked
// once what is the matter with the sandbox, and that becomes the problem; every other outcome stays as it is.
Outcome explain_silence(Context& context, const std::string& sandbox, Outcome outcome);

}  // namespace osb::cli
