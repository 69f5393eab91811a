#pragma once

#include <cstdint>

#include "base/error.h"
#include "base/ports.h"

namespace osb::execd {

// On the loopback interface. Other numbers are for tests.
struct PolicyGate {
  std::uint16_t gate = kPolicyGatePort, sidecar = kSidecarDnsPort;
};

// Blocks until the egress sidecar that joins this network namespace enforces the network policy. The gate listens, then
// it tries the sidecar's port; the sidecar listens when its rules are in force, then it tries the gate's port. So one
// of the two connections comes about whichever side is first, and neither side asks again and again.
//
// Sound only as the first process of a sandbox: no other program can listen on either port yet.
Result<void> wait_for_policy(PolicyGate ports = {});

// `execd --wait-for-policy COMMAND ARGUMENT...` is the entrypoint of containers with a network policy, so that no
// program of the image runs before the policy is in force. Runs the command instead of this process; returns the exit
// status if that fails. `argv` is main's: the program, the option, the command.
int run_behind_policy(char** argv);

}  // namespace osb::execd
