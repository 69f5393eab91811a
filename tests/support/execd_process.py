"""Runs the real execd for tests: on a loopback socket that is listening before the process exists, so that nothing
has to wait or retry."""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile

import httpx

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOKEN_HEADER = "X-EXECD-ACCESS-TOKEN"
PATIENCE = 60  # seconds until an execd that should end counts as hanging


def binary():
    return os.environ.get("EXECD_BINARY") or str(ROOT / "build" / "release" / "bin" / "execd")


class Execd:
    """One running execd. `client` carries the token if there is one; `url`, `port`, `pid` and `token` say the rest.

    `args` are further flags, `env` is added to this process's environment (a None value removes a variable),
    `identity` the (uid, gid) it runs as, without other groups, `under` a command that executes it. The directory and the program are such that every user can
    enter and run them, which the tree may not be: /root is closed on most machines.
    """

    def __init__(self, *, token=None, args=(), env=None, cwd="/", identity=None, under=()):
        self.token = token
        self._open = tempfile.TemporaryDirectory(prefix="execd-") if identity else None
        self._log = tempfile.TemporaryFile(prefix="execd-log-")
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(4096)
            self.port = listener.getsockname()[1]
            fd = listener.fileno()
            program = binary()
            if identity:
                os.chmod(self._open.name, 0o755)
                program = shutil.copy(program, self._open.name)
            command = [*under, program, f"--listen-fd={fd}", *args]
            environment = {k: v for k, v in {**os.environ, **(env or {})}.items() if v is not None}
            if token is None:
                environment.pop("EXECD_ACCESS_TOKEN", None)
            else:
                environment["EXECD_ACCESS_TOKEN"] = token
            account = {"user": identity[0], "group": identity[1], "extra_groups": []} if identity else {}
            self._process = subprocess.Popen(
                command, pass_fds=[fd], env=environment, cwd=cwd, stdin=subprocess.DEVNULL, stdout=self._log,
                stderr=subprocess.STDOUT, **account)
        # Only execd holds the listener now: if it dies before accepting, the kernel resets our first connection.
        self.pid = self._process.pid
        self.url = f"http://127.0.0.1:{self.port}"
        headers = {TOKEN_HEADER: token} if token else {}
        self.client = httpx.Client(base_url=self.url, headers=headers, timeout=30, trust_env=False)
        self.tmp = None  # set per test by the fixtures
        try:
            self.client.get("/ping").raise_for_status()
        except httpx.HTTPError as error:
            raise RuntimeError(f"execd ended with status {self._end()}: {error}\n{self.log()}") from error

    def alive(self):
        return self._process.poll() is None

    def log(self):
        """The output of execd so far (the last 64 KiB of it)."""
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - 65536))
        return self._log.read().decode(errors="replace")

    def check_alive(self):
        """Raises if execd is gone or stuck: for the end of every test that did not stop it.

        Asks instead of looking at the process: a crashing one closes its sockets before it can be waited for.
        """
        try:
            httpx.get(f"{self.url}/ping", headers=self.client.headers, timeout=30, trust_env=False)
            return
        except httpx.HTTPError as error:
            status = self._end()
            raise AssertionError(f"execd ended with status {status} during the test ({error})\n{self.log()}") from None

    def _end(self):
        """The exit status of a process that should be gone; one that is not gets killed."""
        try:
            return self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def wait(self, timeout=PATIENCE):
        """The exit status of an execd that is ending."""
        return self._process.wait(timeout)

    def stop(self):
        """SIGTERM; an execd that stays is killed and reported, and so is one that ends with an error."""
        self.client.close()
        if not self.alive():
            return
        os.kill(self.pid, signal.SIGTERM)
        try:
            status = self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise AssertionError(f"execd ignored SIGTERM for {PATIENCE} s\n{self.log()}") from None
        if status not in (0, -signal.SIGTERM):
            raise AssertionError(f"execd ended with status {status} on SIGTERM\n{self.log()}")
