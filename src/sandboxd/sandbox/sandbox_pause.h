#pragma once

#include "sandboxd/sandbox/host_parts.h"
#include "sandboxd/sandbox/sandbox_config.h"
#include "sandboxd/sandbox/sandbox_record.h"

namespace osb::sandboxd {

// Pausing freezes all processes. While a sandbox is paused, the host refuses new connections to its address: its
// processes would not answer them. Open connections are left alone. The record on disk tells a daemon that finds a
// frozen sandbox whether it was paused, or a snapshot was interrupted. Both calls block. The caller of pause_sandbox()
// has told the host to refuse; a pause that fails takes that back, and a resume that fails changes nothing.
Result<void> pause_sandbox(const SandboxConfig& config, SlotRules& rules, SandboxRecord record,
                           const LiveSandbox& live);
Result<void> resume_sandbox(const SandboxConfig& config, SlotRules& rules, SandboxRecord record,
                            const LiveSandbox& live);

}  // namespace osb::sandboxd
