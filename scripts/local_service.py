"""sandboxd and opensandbox-server for scripts/demo: `osb up` starts them, `osb down --purge` ends them and deletes all."""

import contextlib
import glob
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
BIN = pathlib.Path(os.environ.get("BIN") or ROOT / "build" / "release" / "bin").resolve()
KEY_HEADER = "OPEN-SANDBOX-API-KEY"
KEY_VARIABLES = ("OPENSANDBOX_SERVER_API_KEY", "OPEN_SANDBOX_API_KEY")  # the server's, the SDKs'


class Problem(Exception):
    """A failure that is reported to the user in one sentence."""


def become_root():
    """sandboxd needs root; sudo asks for the password on a terminal."""
    if os.geteuid() == 0:
        return
    if shutil.which("sudo") is None:
        sys.exit("This needs root: sandboxes are made of namespaces, mounts and cgroups. Run it as root or install sudo.")
    # Keys go by the environment: everyone can read the words of a command.
    keys = [f"--preserve-env={name}" for name in KEY_VARIABLES if name in os.environ]
    keep = [f"{name}={os.environ[name]}" for name in ("BIN", "DIR", "HOME", "PORT", "TERM") if name in os.environ]
    os.execvp("sudo", ["sudo", *keys, "env", *keep, sys.executable, "-B", *sys.argv])


def end_on_signals():
    """So that a kill or a closed terminal cleans up as Ctrl-C does, also if a shell had Ctrl-C ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, lambda number, frame: sys.exit(128 + number))


class LocalService:
    """Both daemons on a port, in a directory of their own. A context manager: on leaving, sandboxes, processes, directory
    and cgroups are gone."""

    def __init__(self, port):
        self.port = port
        self.directory = self.record = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def key(self):
        return self.record["key"]

    def pid(self, daemon):
        """`daemon`: sandboxd or server."""
        return self.record[daemon]["pid"]

    def __enter__(self):
        # Not /tmp: that may be a tmpfs, which older kernels cannot map ids on.
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="osb-demo-", dir=os.environ.get("TMPDIR", "/var/tmp")))
        try:
            self._osb("up", "--port", str(self.port), "--no-save", "-o", "json")
            self.record = json.loads((self.directory / "service.json").read_text())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        previous = [signal.signal(each, signal.SIG_IGN) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
        with contextlib.suppress(Problem):
            self._osb("down", "--purge", "--yes", "-o", "json")
        shutil.rmtree(self.directory, ignore_errors=True)
        for each, handler in zip((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), previous):
            signal.signal(each, handler)

    def _osb(self, command, *words):
        program = BIN / "osb"
        if not os.access(program, os.X_OK):
            raise Problem(f"{program} is missing; 'make build' makes it.")
        #  The demo has its own key, even if the environment names another server.
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("OPENSANDBOX_", "OPEN_SANDBOX_"))}
        done = subprocess.run([program, command, "--dir", self.directory, *words], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, env={**environment, "HOME": str(self.directory)})
        if done.returncode != 0:
            raise Problem(f"osb {command} failed: {(done.stdout + done.stderr).strip()}")

    def left_behind(self):
        """Cgroups of this service: none after its end."""
        parent = self.record["cgroup_parent"]
        return glob.glob(f"/sys/fs/cgroup/{parent}") + glob.glob(f"/sys/fs/cgroup/*/{parent}")
