"""The system under test: sandboxd and the server on a disk of their own, the server with a clock that can be set."""

import contextlib
import ctypes
import glob
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import host_state  # noqa: E402
import httpx  # noqa: E402
from sandboxd_process import Sandboxd  # noqa: E402
from server_process import Server  # noqa: E402

DISK_BYTES = 2 << 30
READY_SLOTS = 8
CLONE_NEWNS, CLONE_NEWNET = 0x20000, 0x40000000


def enter_namespaces():
    """Network and mounts of our own: they go with this process."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS | CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare: this needs root")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


class Disk:
    """A small ext4 in a file. fill() leaves no free space on it."""

    def __init__(self, directory):
        self.place = directory / "disk"
        self.place.mkdir()
        self._image = directory / "disk.img"
        with open(self._image, "wb") as image:
            image.truncate(DISK_BYTES)
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(self._image)], check=True)
        subprocess.run(["mount", "-o", "loop", str(self._image), str(self.place)], check=True)
        self._filler = self.place / "filler"

    def free(self):
        usage = os.statvfs(self.place)
        return usage.f_bavail * usage.f_frsize

    def fill(self):
        with open(self._filler, "wb") as filler:
            for size in (16 << 20, 1 << 20, 4096):
                while True:
                    try:
                        os.posix_fallocate(filler.fileno(), os.fstat(filler.fileno()).st_size, size)
                    except OSError:
                        break

    def relieve(self):
        self._filler.unlink(missing_ok=True)

    def close(self):
        subprocess.run(["umount", "--lazy", str(self.place)], check=False)


class ChaosDaemon(Sandboxd):
    """Its state is on the disk, its log is not."""

    def __init__(self, directory, disk, clock_file):
        (directory / "state").mkdir(mode=0o700)
        (disk.place / "state").mkdir(mode=0o700)
        subprocess.run(["mount", "--bind", str(disk.place / "state"), str(directory / "state")], check=True)
        self._clock_file = clock_file
        super().__init__(directory=str(directory), settings={"daemon": {"log_level": "warn"},
                                                             "network": {"ready_slots": READY_SLOTS}})

    def server_environment(self, home):
        library, = glob.glob("/usr/lib/*/faketime/libfaketime.so.1")  # Debian's libfaketime
        return {**super().server_environment(home), "LD_PRELOAD": library, "FAKETIME_NO_CACHE": "1",
                "FAKETIME_TIMESTAMP_FILE": str(self._clock_file), "FAKETIME_DONT_FAKE_MONOTONIC": "1",
                "DONT_FAKE_MONOTONIC": "1"}


class World:
    def __init__(self):
        self._directory = tempfile.TemporaryDirectory(prefix="chaos-", ignore_cleanup_errors=True)  # short: names of sockets are
        self.directory = pathlib.Path(self._directory.name)
        os.chmod(self.directory, 0o711)
        self.disk = Disk(self.directory)
        self._clock_file = self.directory / "clock"
        self.offset = 0
        self.set_clock(0)
        (self.directory / "d").mkdir()
        self.daemon = ChaosDaemon(self.directory / "d", self.disk, self._clock_file)
        (self.disk.place / "server").mkdir(mode=0o700)
        self.server = Server(self.daemon, settings={
            "store": {"path": str(self.disk.place / "server" / "server.db")}})

    def set_clock(self, offset):
        """Sets the server's clock so many seconds ahead. The file is renamed into place: it is never half-written."""
        new = self._clock_file.with_suffix(".new")
        new.write_text(f"{offset:+d}\n")
        new.rename(self._clock_file)
        self.offset = offset

    def wait_ready(self, limit):
        """How long it took until the server says that it can serve creates."""
        begin = time.monotonic()
        said = ""
        while time.monotonic() - begin < limit:
            try:
                response = httpx.get(f"{self.server.url}/health/ready", timeout=10, trust_env=False)
                if response.status_code == 200:
                    return time.monotonic() - begin
                said = response.text
            except httpx.HTTPError as failure:
                said = repr(failure)
            time.sleep(0.02)
        raise AssertionError(f"not ready after {limit} s: {said}")

    def _end_processes(self):
        """Ends the processes of an interrupted run by force."""
        for process in (self.server.process, self.daemon.process):
            process.kill()
            process.wait()
        limit = time.monotonic() + 20
        parents = [pathlib.Path(mount) / self.daemon.cgroup_parent for mount in host_state.cgroup_mounts()]
        while any(parent.exists() for parent in parents) and time.monotonic() < limit:
            for pid in host_state.processes(self.daemon):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            for parent in parents:
                for state in parent.glob("*/freezer.state"):
                    with contextlib.suppress(OSError):
                        state.write_text("THAWED")
                for directory in [*parent.glob("*/"), parent]:
                    with contextlib.suppress(OSError):
                        directory.rmdir()
            time.sleep(0.1)

    def close(self):
        try:
            self.server.close()
            self.daemon.close()
        finally:
            self._end_processes()
            subprocess.run(["umount", "--lazy", str(self.daemon.state)], check=False)
            self.disk.close()
            self._directory.cleanup()
