#!/usr/bin/env python3
"""Runs a program inside User-Mode Linux: a real kernel (Debian's 6.1) with cgroup v2, booted as a process of this host.

    run_in_uml.py [--memory 512M] [--disk 256M] [--filesystem ext4] [--timeout 120] -- PROGRAM ARGUMENT...

The machine sees the host's files (not its /run) below a writable layer in memory, so programs and libraries are
where they are here; it has all of cgroup v2's controllers, the kernel's modules, and no network but loopback. With --disk
a file system of its own is at /var/lib/opensandbox: ext4, btrfs, or xfs or ext4-quota with project quotas. The program runs as root of that machine, in /run/tmp, and can do
what it likes: nothing reaches the host but its output and exit status, which become ours. When the time is up the
machine is switched off and the exit status is 124; 125 means that it did not come up or crashed.
"""

import argparse
import ctypes
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PR_SET_PDEATHSIG = 1
TIMED_OUT, BROKEN = 124, 125


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


MAKE_FILESYSTEM = {
    "ext4": ["mkfs.ext4", "-q", "-E", "lazy_itable_init=1,nodiscard"],
    "ext4-quota": ["mkfs.ext4", "-q", "-E", "lazy_itable_init=1,nodiscard,quotatype=prjquota", "-O", "quota,project"],
    "xfs": ["mkfs.xfs", "-q", "-K"],
    "btrfs": ["mkfs.btrfs", "-q", "-K", "--mixed"],
}


def make_disk(path: pathlib.Path, size: str, filesystem: str) -> None:
    subprocess.run(["truncate", "-s", size, path], check=True)
    subprocess.run([*MAKE_FILESYSTEM[filesystem], path], check=True)


def boot(directory: pathlib.Path, memory: str, filesystem: str, timeout: float) -> bool:
    """False when the time was up. The console goes to `console`."""
    command = [
        "linux.uml", f"mem={memory}", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", "quiet",
        "con=null", "con0=null,fd:1", "ssl=null", f"uml_dir={directory}", "umid=machine",
        *([f"ubda={directory / 'disk'}"] if filesystem else []),
        f"init={HERE / 'init.sh'}", "--", str(directory), filesystem,
    ]
    # large_xstate.cc: for processors with many registers.
    environment = {**os.environ, "LD_PRELOAD": os.environ["UML_PRELOAD"]}
    with open(directory / "console", "wb") as console:
        # A session of its own: the machine is many processes, and all of them go at once.
        machine = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=console, stderr=console, env=environment,
                                   start_new_session=True, preexec_fn=die_with_parent)
        try:
            machine.wait(timeout)
            return True
        except subprocess.TimeoutExpired:
            return False
        finally:
            try:
                os.killpg(machine.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            machine.wait()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--memory", default="512M")
    parser.add_argument("--disk", metavar="SIZE")
    parser.add_argument("--filesystem", choices=MAKE_FILESYSTEM, default="ext4")
    parser.add_argument("--timeout", type=float, default=120)
    parser.add_argument("program", nargs="+")
    options = parser.parse_args()
    if not shutil.which("linux.uml"):
        print("run_in_uml: linux.uml is missing: install Debian's user-mode-linux", file=sys.stderr)
        return BROKEN

    with tempfile.TemporaryDirectory(prefix="osb-uml-") as name:
        directory = pathlib.Path(name)
        (directory / "run").write_text(f"cd /run/tmp && exec {shlex.join(options.program)}\n")
        if options.disk:
            make_disk(directory / "disk", options.disk, options.filesystem)
        in_time = boot(directory, options.memory, options.filesystem if options.disk else "", options.timeout)
        output, status = directory / "output", directory / "status"
        if output.exists():
            sys.stdout.buffer.write(output.read_bytes())
            sys.stdout.flush()
        if status.exists():
            return int(status.read_text())
        print("run_in_uml: the machine " + (f"was switched off after {options.timeout} s" if not in_time else
              "ended without an exit status") + "; its console said:", file=sys.stderr)
        print((directory / "console").read_text(errors="replace")[-4000:], file=sys.stderr)
        return BROKEN if in_time else TIMED_OUT


if __name__ == "__main__":
    sys.exit(main())
