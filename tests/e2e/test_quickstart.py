"""`make up`, `make demo` and the example that they point to, as a user runs them."""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = os.environ.get("BIN") or str(ROOT / "build" / "release" / "bin")
KEYS = ("OPENSANDBOX_SERVER_API_KEY", "OPEN_SANDBOX_API_KEY", "OPEN_SANDBOX_DOMAIN")
ENVIRONMENT = {**{name: value for name, value in os.environ.items() if name not in KEYS}, "BIN": BIN}


@pytest.fixture(autouse=True)
def nothing_left():
    """Instead of the one that looks at the SDK suites' server: here every test starts its own, and looks itself."""


class Up:
    """scripts/up, started, with what it printed."""

    def __init__(self, **environment):
        self.process = subprocess.Popen([ROOT / "scripts" / "up"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, env={**ENVIRONMENT, **environment})
        self.said = ""
        for line in self.process.stdout:
            self.said += line
            if line.startswith("Logs: "):
                self.directory = pathlib.Path(line.split()[1]).parent
                return
        raise RuntimeError(self.process.communicate()[1])

    @property
    def key(self):
        return re.search(r"OPEN_SANDBOX_API_KEY=(\S+)", self.said)[1]

    def server_rights(self):
        """User and effective capabilities of the server."""
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (path / "exe").readlink() == self.directory / "opensandbox-server":
                    status = dict(line.split(":\t", 1) for line in (path / "status").read_text().splitlines())
                    return int(status["Uid"].split()[0]), int(status["CapEff"], 16)
        raise AssertionError("no server")

    def quickstart(self, key=None):
        environment = {**ENVIRONMENT, "OPEN_SANDBOX_DOMAIN": re.search(r"OPEN_SANDBOX_DOMAIN=(\S+)", self.said)[1],
                       "OPEN_SANDBOX_API_KEY": key or self.key}
        return subprocess.run([sys.executable, "-B", ROOT / "examples" / "python" / "quickstart.py"], env=environment,
                              capture_output=True, text=True, timeout=60)

    def end(self, number=signal.SIGINT):
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out + err

    def traces(self):
        cgroups = [str(path) for pattern in ("osb-up-*", "*/osb-up-*") for path in
                   pathlib.Path("/sys/fs/cgroup").glob(pattern) if path.name.endswith(f"-{self.process.pid}")]
        tables = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True).stdout
        return cgroups + [str(self.directory)] * self.directory.exists() + tables.split("\n")[:-1]


def test_quickstart_against_make_up():
    up = Up(PORT="18080")
    try:
        ran = up.quickstart()
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout.splitlines() == [f"{i}: hello from the sandbox" for i in (1, 2, 3)] + ["Linux"]
        user, capabilities = up.server_rights()
        assert user != 0 and capabilities == 0
        refused = up.quickstart(key="wrong")
        assert refused.returncode != 0
        assert "INVALID_API_KEY" in refused.stderr
    finally:
        code, said = up.end()
    assert code == 0, said
    assert up.traces() == []


def test_make_up_takes_a_key_and_removes_sandboxes_that_still_run():
    up = Up(PORT="18081", OPENSANDBOX_SERVER_API_KEY="a-key-of-mine")
    try:
        assert up.key == "a-key-of-mine"
        # Without its last line the example leaves the sandbox alive.
        program = (ROOT / "examples" / "python" / "quickstart.py").read_text().replace("    sandbox.kill()\n", "")
        ran = subprocess.run([sys.executable, "-B", "-c", program], capture_output=True, text=True, timeout=60,
                             env={**ENVIRONMENT, "OPEN_SANDBOX_DOMAIN": "127.0.0.1:18081",
                                  "OPEN_SANDBOX_API_KEY": up.key})
        assert ran.returncode == 0, ran.stderr
    finally:
        code, said = up.end(signal.SIGTERM)
    assert code == 128 + signal.SIGTERM, said
    assert up.traces() == []


def test_a_port_that_is_taken_is_said_in_one_sentence():
    up = Up(PORT="18082")
    try:
        second = subprocess.run([ROOT / "scripts" / "up"], capture_output=True, text=True, timeout=60,
                                env={**ENVIRONMENT, "PORT": "18082"})
        assert second.returncode == 1
        assert "opensandbox-server did not start" in second.stderr
        assert "18082" in second.stderr
        assert "Traceback" not in second.stderr
        assert up.quickstart().returncode == 0  # the first is none the worse
    finally:
        up.end()
    assert up.traces() == []


@pytest.mark.parametrize("missing", [False, True], ids=["works", "programs missing"])
def test_demo(missing, tmp_path):
    ran = subprocess.run([ROOT / "scripts" / "demo"], capture_output=True, text=True, timeout=120,
                         env={**ENVIRONMENT, **({"BIN": str(tmp_path)} if missing else {})})
    assert ran.returncode == (1 if missing else 0), ran.stdout + ran.stderr
    assert ("FAIL" in ran.stdout) == missing
    assert "\x1b" not in ran.stdout
    if not missing:
        assert re.search(r"All \d+ steps went well", ran.stdout)
        assert len(ran.stdout.splitlines()) < 90
