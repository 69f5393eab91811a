"""Services that `osb up` starts, looked at from the host."""

import glob
import json
import os
import pathlib
import select
import shutil
import signal

from osb_program import Osb, osb_binary
from sandboxd_process import binary
from server_process import free_port, server_binary


class NoServer:
    """No server yet: where `osb up` shall start one."""

    key = "a-key-for-tests"

    def __init__(self):
        self.port = free_port()


def install_programs(directory):
    """osb with the other programs beside it, as they are installed."""
    directory.mkdir(exist_ok=True)
    for name, program in (("osb", osb_binary()), ("sandboxd", binary("sandboxd")), ("execd", binary("execd")),
                          ("opensandbox-server", server_binary())):
        if not (directory / name).exists():
            shutil.copy(program, directory / name)
    return directory / "osb"


class UpService:
    """One service in a directory of its own; osb knows its address."""

    def __init__(self, directory, home):
        self.directory = pathlib.Path(directory)
        self.osb = Osb(NoServer(), home)

    def up(self, *options):
        return self.osb.json("up", "--dir", self.directory, *options)

    def down(self, *options):
        return self.osb.json("down", "--dir", self.directory, *options)

    def purge(self):
        return self.down("--purge", "--yes")

    @property
    def record(self):
        return json.loads((self.directory / "service.json").read_text())

    def edit_record(self, **changes):
        (self.directory / "service.json").write_text(json.dumps({**self.record, **changes}))

    def kill(self, *daemons):
        """As kill -9 does; returns when they have ended."""
        pidfds = []
        for name in daemons:
            pid = self.record[name]["pid"]
            pidfds.append(os.pidfd_open(pid))
            os.kill(pid, signal.SIGKILL)
        for pidfd in pidfds:
            wait_ended(pidfd)

    def processes(self):
        """Of the daemons."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if str(self.directory).encode() in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(int(pid))
            except OSError:
                pass  # it has just ended
        return found

    def cgroups(self, record=None):
        parent = (record or self.record)["cgroup_parent"]
        return glob.glob(f"/sys/fs/cgroup/{parent}") + glob.glob(f"/sys/fs/cgroup/*/{parent}")

    def kill_sandboxes(self):
        """Their processes, as the end of the machine does."""
        pidfds = []
        for directory in [directory for top in self.cgroups() for directory, _, _ in os.walk(top)]:
            try:
                pids = pathlib.Path(directory, "cgroup.procs").read_text().split()
            except OSError:
                continue  # its sandbox has just ended
            for pid in map(int, pids):
                try:
                    pidfds.append(os.pidfd_open(pid))
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass  # the end of its first process ends a sandbox
        for pidfd in pidfds:
            wait_ended(pidfd)


def wait_ended(pidfd):
    ready, _, _ = select.select([pidfd], [], [], 60)
    os.close(pidfd)
    assert ready, "a killed process does not end"
