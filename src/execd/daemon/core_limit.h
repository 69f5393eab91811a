#pragma once

#include "base/error.h"

namespace osb::execd {

// Sets the limit of core files to 1 byte, and keeps it there for this process and all that it starts: with that number,
// and with no other, the kernel neither writes a core file nor starts the host's handler of core_pattern, which would
// run as root of the host on a process that the sandbox has prepared. Setting the limit "succeeds" afterwards without
// an effect. A seccomp filter does this, so the process must have no_new_privs already: without it only the limit is
// set, which programs can lower to 0. A hard limit of 0 cannot be raised and stays.
Result<void> keep_core_limit();

// bootstrap.sh has `execd --keep-core-limit` as its interpreter: containers so start with a program that does not come
// from the image. Calls keep_core_limit() and runs `/bin/sh SCRIPT ARGUMENT...` instead of this process; returns the
// exit status if that fails. `argv` is main's: the program, the option, the script.
int run_script_with_core_limit(char** argv);

}  // namespace osb::execd
