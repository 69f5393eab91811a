"""The real osb as a process, talking to a server of the tests."""

import json
import os
import signal
import subprocess

from sandboxd_process import ROOT
from terminal_driver import Terminal


def osb_binary():
    return os.environ.get("OSB_BINARY") or str(ROOT / "build" / "release" / "bin" / "osb")


def _signals_as_usual():
    for each in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(each, signal.SIG_DFL)


class Osb:
    """`domain`: another way to the server, such as a proxy."""

    def __init__(self, server, home, domain=None):
        self.server = server
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("OPEN_SANDBOX_")}
        self.env |= {"HOME": str(home), "TERM": "xterm", "LC_ALL": "C.UTF-8",
                     "OPEN_SANDBOX_DOMAIN": domain or f"127.0.0.1:{server.port}", "OPEN_SANDBOX_API_KEY": server.key}

    def run(self, *arguments, input=None, **options):
        """Ends by itself; standard output and error as bytes."""
        if input is None:
            options.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run([osb_binary(), *map(str, arguments)], capture_output=True, env=self.env, input=input,
                              timeout=120, check=False, **options)

    def ok(self, *arguments, **options):
        """Its standard output as text."""
        done = self.run(*arguments, **options)
        assert done.returncode == 0, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr.decode()}"
        return done.stdout.decode()

    def json(self, *arguments, **options):
        return json.loads(self.ok(*arguments, "-o", "json", **options))

    def refused(self, *arguments, code=1, **options):
        """Its standard error; never more than a few lines, never a trace."""
        done = self.run(*arguments, **options)
        said = done.stderr.decode()
        assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{said}"
        assert 0 < len(said.splitlines()) <= 6, said
        return said

    def start(self, *arguments, **options):
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        return subprocess.Popen([osb_binary(), *map(str, arguments)], env=self.env, preexec_fn=_signals_as_usual,
                                **options)

    def terminal(self, *arguments, **options):
        return Terminal([osb_binary(), *map(str, arguments)], self.env, **options)
