#pragma once

#include "base/error.h"

namespace osb::execd {

// Walls of a container that its engine has not, for this process and all that it starts. A seccomp filter raises them,
// so the process must have no_new_privs already: without it only the limit of core files is set, which programs can
// lower to 0.
struct ContainerWalls {
  // No file gets a setuid or setgid bit (EPERM): a directory of the host is mounted, where root inside is root of the
  // host, and users of the host can reach it. Calls that would hide a mode from the filter (openat2, io_uring) and
  // snapshots of a btrfs answer ENOSYS.
  bool no_set_id_files = false;
};

// Sets the limit of core files to 1 byte, and keeps it there: with that number, and with no other, the kernel neither
// writes a core file nor starts the host's handler of core_pattern, which would run as root of the host on a process
// that the sandbox has prepared. Setting the limit "succeeds" afterwards without an effect. A hard limit of 0 cannot be
// raised and stays.
//
// io_setup answers ENOSYS: the kernel has one pool of asynchronous requests (fs.aio-max-nr) for the whole host.
Result<void> raise_container_walls(const ContainerWalls& walls);

// bootstrap.sh has `execd --keep-core-limit` as its interpreter: containers so start with a program that does not come
// from the image. Raises the walls, with no_set_id_files if EXECD_NO_SET_ID is 1, and runs `/bin/sh SCRIPT ARGUMENT...`
// instead of this process; returns the exit status if that fails. `argv` is main's: the program, the option, the
// script.
int run_script_behind_walls(char** argv);

}  // namespace osb::execd
