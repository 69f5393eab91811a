"""Crashes in a sandbox. The kernel gives a crashed process to the host's handler of core_pattern, which runs as the host's
root and reads what the sandbox has prepared."""

import contextlib
import fcntl
import os
import pathlib
import secrets
import select
import signal
import subprocess
import tempfile

import pytest

from attack import attack, number_of

pytestmark = pytest.mark.wall("Core dumps", second="a filter that keeps the limit as it is")

PATTERN = pathlib.Path("/proc/sys/kernel/core_pattern")
# The kernel starts a handler outside of all namespaces. There the root directory of this machine has this name, which is not
# empty where the machine is made of namespaces (tests/fresh).
OUTSIDE = os.environ.get("ROOT_OUTSIDE", "")
LIMIT = 60  # seconds until the kernel has started a handler


@pytest.fixture
def handler():
    """A handler of the host. `heard()` lists the hosts' names of all crashes that it was started for."""
    with contextlib.ExitStack() as undo:
        lock = undo.enter_context(open("/run/lock/opensandbox-test-core-pattern", "w"))
        fcntl.flock(lock, fcntl.LOCK_EX)  # there is one for the whole machine
        # A pattern has at most 128 bytes.
        directory = pathlib.Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="h", dir="/tmp")))
        directory.chmod(0o755)
        calls = directory / "calls"
        os.mkfifo(calls)
        pipe = os.open(calls, os.O_RDWR)
        undo.callback(os.close, pipe)
        program = directory / "h"
        program.write_text(f'#!/bin/sh\ncat > /dev/null\necho "$1 $2" > {OUTSIDE}{calls}\n')
        program.chmod(0o755)
        undo.callback(PATTERN.write_text, PATTERN.read_text())
        PATTERN.write_text(f"|{OUTSIDE}{program} %h %e")
        yield Handler(pipe)


class Handler:
    def __init__(self, pipe):
        self.pipe, self.received = pipe, b""

    def heard(self):
        """Up to a crash of ours now: the handlers of earlier ones have been started before."""
        mark = "osb" + secrets.token_hex(6)  # the name of a process has 15 bytes
        control = subprocess.Popen(["sh", "-c", f"echo {mark} > /proc/self/comm; ulimit -c unlimited; kill -SEGV $$"],
                                   stdin=subprocess.DEVNULL)
        assert control.wait() == -signal.SIGSEGV
        names = []
        while True:
            name, _, program = self.line().partition(" ")
            if program == mark:
                return names
            names.append(name)

    def line(self):
        while b"\n" not in self.received:
            assert select.select([self.pipe], [], [], LIMIT)[0], \
                "the kernel has started no handler for a crash outside of the sandbox"
            self.received += os.read(self.pipe, 4096)
        line, _, self.received = self.received.partition(b"\n")
        return line.decode()


CRASHES = {
    "a plain crash": "",
    "with no limit": "resource.setrlimit(resource.RLIMIT_CORE, (-1, -1))",
    "with the hard limit": "resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)",
    "of a program that can be dumped": "libc.prctl(4, 1, 0, 0, 0)",
}
LOWERED = {
    "by setrlimit": "syscall(setrlimit, 4, zero)",
    "by prlimit": "syscall(prlimit, 0, 4, zero, 0)",
    "by prlimit that asks for the old limit": "syscall(prlimit, 0, 4, zero, old)",
    "by an address that looks like none": "syscall(prlimit, 0, 4, high, 0)",
    "by a number with bits above": "syscall(setrlimit, 4 | 1 << 32, zero)",
    "by its own pid": "syscall(prlimit, os.getpid(), 4, zero, 0)",
}


def crash(prisoner, prepare):
    return attack(prisoner, f"""
import mmap, resource
space = mmap.mmap(-1, 4096)
zero = ctypes.addressof(ctypes.c_char.from_buffer(space))
old = zero + 64
libc.mmap.restype = ctypes.c_void_p
high = libc.mmap(ctypes.c_void_p(1 << 32), 4096, 3, 0x100022, -1, 0) or 0
def die():
    try:
        {prepare or 'pass'}
    except (ValueError, OSError):
        pass
    os.kill(os.getpid(), signal.SIGSEGV)
report(in_child(die))
""", setrlimit=number_of("setrlimit"), prlimit=number_of("prlimit64"))


@pytest.mark.parametrize("how", CRASHES)
def test_a_crash_inside_does_not_start_the_hosts_handler(prisoner, handler, how):
    name = prisoner.output("uname -n")
    assert crash(prisoner, CRASHES[how]) == "signal 11"
    assert name not in handler.heard()


@pytest.mark.attack(on="native docker")
@pytest.mark.parametrize("how", LOWERED)
def test_a_sandbox_does_not_get_to_the_handler_by_a_lower_limit(prisoner, handler, how):
    """A limit of 0 keeps cores away and lets the handler come."""
    name = prisoner.output("uname -n")
    assert crash(prisoner, LOWERED[how]) == "signal 11"
    assert name not in handler.heard()


@pytest.mark.attack(on="native docker")
def test_a_crash_leaves_no_core_file(prison, handler):
    with contextlib.ExitStack() as undo:
        undo.callback(PATTERN.write_text, PATTERN.read_text())
        PATTERN.write_text("core")
        prisoner = prison.create()
        text = prisoner.output("cd /tmp; ulimit -c unlimited; sh -c 'kill -SEGV $$'; echo $?")
        assert text.splitlines()[-1] == "139", text
        assert prisoner.output("ls -A /tmp | grep -c core || true").strip() == "0"
