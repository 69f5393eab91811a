#pragma once

#include <optional>

namespace osb::execd {

// The oom_score_adj of commands: a tenth of the memory limit above execd's own. The kernel then kills a command before
// execd, also where execd is the largest process: many small ones could end the sandbox otherwise. Nothing where execd
// may not set it. Asked once.
std::optional<int> command_oom_score();

}  // namespace osb::execd
