"""sandboxd and opensandbox-server for scripts/demo: started together, ended together, nothing left. `make up` does not
use them: it keeps its state."""

import contextlib
import glob
import grp
import http.client
import json
import os
import pathlib
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
BIN = pathlib.Path(os.environ.get("BIN") or ROOT / "build" / "release" / "bin").resolve()
KEY_HEADER = "OPEN-SANDBOX-API-KEY"
SERVER_USER = "nobody"  # the server needs no privilege: only its group, to reach sandboxd's socket
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
    """So that a kill or a closed terminal cleans up as Ctrl-C does, which also works where a shell had it ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, lambda number, frame: sys.exit(128 + number))


def toml(sections):
    lines = []
    for section, keys in sections.items():
        lines.append(f"[{section}]")
        lines += [f"{name} = {json.dumps(value)}" for name, value in keys.items()]
    return "\n".join(lines) + "\n"


class LocalConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=60)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class LocalService:
    """Both daemons, with directories, cgroups, addresses and firewall table of their own, so that an installed
    OpenSandbox on this machine and this one do not meet. A context manager: on leaving, sandboxes, processes,
    directories and cgroups are removed, also after an error. Their logs are in `directory` while it lives.
    """

    def __init__(self, name, port, key=None):
        self.name = name
        self.port = port
        self.key = key or secrets.token_hex(16)
        self.cgroup_parent = f"{name}-{os.getpid()}"
        self.directory = self.sandboxd = self.server = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        try:
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_):
        self._end()

    def _start(self):
        for program in ("sandboxd", "execd", "opensandbox-server"):
            if not os.access(BIN / program, os.X_OK):
                raise Problem(f"{BIN / program} is missing; 'make build' makes it.")
        # Not /tmp: that may be a tmpfs, which older kernels cannot map ids on.
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix=f"{self.name}-", dir=os.environ.get("TMPDIR", "/var/tmp")))
        os.chmod(self.directory, 0o711)
        self.run = self.directory / "run"
        server = pwd.getpwnam(SERVER_USER)
        (self.directory / "sandboxd.toml").write_text(toml({
            "daemon": {"cgroup_parent": self.cgroup_parent, "group": grp.getgrgid(server.pw_gid).gr_name},
            "network": {"subnet": "10.91.0.0/16", "table": self.name, "interface_prefix": "osl-",
                        "first_id": 1 << 30},
        }))
        home = self.directory / "server"
        home.mkdir(0o700)
        config = home / "server.toml"
        config.touch(0o600)
        config.write_text(toml({
            "server": {"host": "127.0.0.1", "port": self.port, "api_key": self.key},
            "runtime": {"type": "native"},
            "native": {"socket": str(self.run / "sandboxd.sock")},
            "store": {"path": str(home / "server.db")},
        }))
        for path in (home, config):
            os.chown(path, server.pw_uid, server.pw_gid)
        # Root of a sandbox opens execd, and has no rights on the host: the checkout may be private, so execd is copied.
        # The same goes for the server.
        execd, program = (shutil.copy(BIN / name, self.directory / name) for name in ("execd", "opensandbox-server"))
        for copy in (execd, program):
            os.chmod(copy, 0o755)
        self.sandboxd = self._spawn([BIN / "sandboxd"], "--config", self.directory / "sandboxd.toml", "--state-dir",
                                    self.directory / "state", "--run-dir", self.run, "--execd", execd)
        unprivileged = ["setpriv", "--reuid", str(server.pw_uid), "--regid", str(server.pw_gid), "--clear-groups",
                        "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
        self.server = self._spawn([*unprivileged, program], "--config", config)

    def _spawn(self, program, *arguments):
        """Returns when it says that it is ready. A session of its own: Ctrl-C is for us, who then end it in order."""
        name = pathlib.Path(program[-1]).name
        log = self.directory / f"{name}.log"
        reader, writer = os.pipe()
        # Changing the user forgets the signal: the last one before the program sets it.
        command = ["setpriv", "--pdeathsig", "TERM", *map(str, [program[-1], *arguments])]
        command = [*program[:-1], *command]
        # Variables of the environment would override the files.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("OPENSANDBOX_")}
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=writer, stderr=writer, cwd=self.directory,
                                   start_new_session=True, env=environment)
        os.close(writer)
        with open(log, "ab") as out, os.fdopen(reader, "rb") as lines:
            for line in lines:
                out.write(line)
                out.flush()
                if b"is ready" in line:
                    subprocess.Popen(["cat"], stdin=lines, stdout=out, start_new_session=True)
                    return process
        status = process.wait()
        raise Problem(f"{name} did not start (status {status}):\n{self.tail(name)}")

    def tail(self, program):
        """The last lines of its log."""
        lines = (self.directory / f"{program}.log").read_text(errors="replace").strip().splitlines()
        return "\n".join(f"  {line}" for line in lines[-5:]) or "  it said nothing"

    def ended(self):
        """The name of a daemon that is no longer there."""
        for name, process in (("sandboxd", self.sandboxd), ("opensandbox-server", self.server)):
            if process.poll() is not None:
                return name
        return None

    def _end(self):
        previous = [signal.signal(each, signal.SIG_IGN) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
        self._stop(self.server)
        if self.sandboxd is not None and self.sandboxd.poll() is None:
            with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
                self._remove_sandboxes()
        self._stop(self.sandboxd)
        self._remove_cgroups()
        if self.directory is not None:
            shutil.rmtree(self.directory, ignore_errors=True)
        subprocess.run(["nft", "delete", "table", "inet", self.name], stderr=subprocess.DEVNULL, check=False)
        for each, handler in zip((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), previous):
            signal.signal(each, handler)

    @staticmethod
    def _stop(process):
        if process is None or process.poll() is not None:
            return
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _remove_sandboxes(self):
        connection = LocalConnection(self.run / "sandboxd.sock")
        connection.request("GET", "/v1/sandboxes")
        for sandbox in json.load(connection.getresponse())["sandboxes"]:
            connection.request("DELETE", f"/v1/sandboxes/{sandbox['id']}")
            connection.getresponse().read()

    def left_behind(self):
        """Cgroups of this service: none after its end."""
        return {*glob.glob(f"/sys/fs/cgroup/{self.cgroup_parent}"),
                *glob.glob(f"/sys/fs/cgroup/*/{self.cgroup_parent}")}

    def _remove_cgroups(self):
        """Sandboxes outlive a sandboxd that has died; what is in cgroups of our name is ours."""
        deadline = time.monotonic() + 5
        while (left := self.left_behind()) and time.monotonic() < deadline:
            for parent in left:
                for directory, _, _ in os.walk(parent, topdown=False):
                    self._empty(pathlib.Path(directory))
                    with contextlib.suppress(OSError):
                        os.rmdir(directory)
            time.sleep(0.01)  # what was killed needs a moment to go

    @staticmethod
    def _empty(cgroup):
        for name, value in (("cgroup.kill", "1"), ("freezer.state", "THAWED"), ("cgroup.freeze", "0")):
            with contextlib.suppress(OSError):
                if (cgroup / name).exists():
                    (cgroup / name).write_text(value)
        with contextlib.suppress(OSError):
            for pid in (cgroup / "cgroup.procs").read_text().split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
