"""`make up`, `make demo` and the example that they point to, as a user runs them."""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = os.environ.get("BIN") or str(ROOT / "build" / "release" / "bin")
KEYS = ("OPENSANDBOX_SERVER_API_KEY", "OPEN_SANDBOX_API_KEY", "OPEN_SANDBOX_DOMAIN")
ENVIRONMENT = {**{name: value for name, value in os.environ.items() if name not in KEYS}, "BIN": BIN}


@pytest.fixture(autouse=True)
def nothing_left():
    """Instead of the one that looks at the SDK suites' server: here every test starts its own, and looks itself."""


@pytest.fixture
def directory(tmp_path):
    """Of `make up`; what is left there is deleted as `make down PURGE=1` does it."""
    with tempfile.TemporaryDirectory(prefix="up-") as around:
        os.chmod(around, 0o711)  # the server has no privilege
        made = pathlib.Path(around) / "service"
        yield made
        subprocess.run([f"{BIN}/osb", "down", "--dir", made, "--purge", "--yes"], check=True, timeout=240)
        assert not made.exists()
        assert "osb-local" not in subprocess.run(["nft", "list", "tables"], capture_output=True, text=True).stdout


class Up:
    """scripts/up, started, with what it printed."""

    def __init__(self, directory, home, **environment):
        self.environment = {**ENVIRONMENT, "HOME": str(home), "DIR": str(directory), **environment}
        self.process = subprocess.Popen([ROOT / "scripts" / "up"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, env=self.environment)
        self.directory = directory
        self.said = ""
        for line in self.process.stdout:
            self.said += line
            if line.startswith("Stop: Ctrl-C"):
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

    def quickstart(self, key=None, program=None):
        environment = {**ENVIRONMENT, "OPEN_SANDBOX_DOMAIN": re.search(r"OPEN_SANDBOX_DOMAIN=(\S+)", self.said)[1],
                       "OPEN_SANDBOX_API_KEY": key or self.key}
        words = ["-c", program] if program else [ROOT / "examples" / "python" / "quickstart.py"]
        return subprocess.run([sys.executable, "-B", *words], env=environment, capture_output=True, text=True,
                              timeout=240)

    def end(self, number=signal.SIGINT):
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=240)
        return self.process.returncode, out + err

    def processes(self):
        return [path for path in pathlib.Path("/proc").glob("[0-9]*/cmdline")
                if str(self.directory).encode() in _read(path)]


def _read(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""  # it has just ended


def test_quickstart_against_make_up(directory, tmp_path):
    up = Up(directory, tmp_path, PORT="18080")
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
    assert "Stopped" in said and up.processes() == []


def test_make_up_takes_a_key_and_keeps_sandboxes_that_still_run(directory, tmp_path):
    up = Up(directory, tmp_path, PORT="18081", OPENSANDBOX_SERVER_API_KEY="a-key-of-mine")
    try:
        assert up.key == "a-key-of-mine"
        # Without its last line the example leaves the sandbox alive.
        program = (ROOT / "examples" / "python" / "quickstart.py").read_text().replace("    sandbox.kill()\n", "")
        ran = up.quickstart(program=program)
        assert ran.returncode == 0, ran.stderr
    finally:
        code, said = up.end(signal.SIGTERM)
    assert code == 128 + signal.SIGTERM, said
    assert "1 sandbox keeps running" in said and up.processes() == []
    again = Up(directory, tmp_path)
    assert "1 sandbox runs" in again.said and again.key == "a-key-of-mine" and "127.0.0.1:18081" in again.said
    assert again.end()[0] == 0


def test_a_port_that_is_taken_is_said_in_one_sentence(directory, tmp_path):
    up = Up(directory, tmp_path, PORT="18082")
    try:
        second = subprocess.run([ROOT / "scripts" / "up"], capture_output=True, text=True, timeout=60,
                                env={**up.environment, "DIR": f"{directory}-2"})
        assert second.returncode == 1
        assert "port 18082 of this machine is in use by" in second.stderr
        assert "Traceback" not in second.stderr
        assert up.quickstart().returncode == 0  # the first is none the worse
    finally:
        up.end()


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
