"""Fixtures of the execd suite. EXECD_BINARY names the program under test (default: the release build)."""

import os
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from code_runs import new_context  # noqa: E402
from execd_process import Execd  # noqa: E402

SHARED_TOKEN = "conformance-token"

MARKERS = [
    "memory: measures execd's memory; says nothing about a build with sanitizers, which keep much more",
    "static: needs an execd that runs in an image with nothing else; builds with sanitizers are linked dynamically",
]


def pytest_configure(config):
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)


class Shared:
    """An execd that many tests use; replaced when a test has taken it down, so that one crash fails one test."""

    def __init__(self, **options):
        self._options = options
        self._running = None

    def get(self):
        if self._running is None or not self._running.alive():
            self._running = Execd(**self._options)
        return self._running

    def stop(self):
        if self._running is not None:
            self._running.stop()


def shared_fixture(**options):
    @pytest.fixture(scope="session")
    def shared():
        holder = Shared(**options)
        yield holder
        holder.stop()

    return shared


shared_execd = shared_fixture()
# Interrupts take what a busy machine needs; a test that fails for want of time says nothing.
shared_code_execd = shared_fixture(env={"EXECD_CODE_INTERRUPT_GRACE": "60s"})
shared_token_execd = shared_fixture(token=SHARED_TOKEN)


def lend(shared, tmp_path):
    execd = shared.get()
    execd.tmp = tmp_path
    yield execd
    execd.check_alive()


@pytest.fixture
def execd(shared_execd, tmp_path):
    """An execd without authentication, shared by the run; `execd.tmp` is a fresh directory for this test."""
    yield from lend(shared_execd, tmp_path)


@pytest.fixture
def code_execd(shared_code_execd, tmp_path):
    """The same for tests that interrupt code: only code that ignores it for long is killed."""
    yield from lend(shared_code_execd, tmp_path)


@pytest.fixture(scope="session")
def warm_go(tmp_path_factory):
    """Go's build cache holds the standard library, which takes longer to compile than a new context may take."""
    kernel = pathlib.Path(__file__).resolve().parents[3] / "src" / "execd" / "code" / "drivers" / "kernel.go"
    subprocess.run(["go", "build", "-o", str(tmp_path_factory.mktemp("go") / "kernel"), str(kernel)], check=True,
                   env={**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": ""}, cwd="/")


@pytest.fixture
def context(execd):
    """A context for Python, of the file's own execd."""
    context = new_context(execd)
    yield context
    execd.client.delete(f"/code/contexts/{context}")


@pytest.fixture
def token_execd(shared_token_execd, tmp_path):
    """The same with an access token; `client` sends it, `token` is its value."""
    yield from lend(shared_token_execd, tmp_path)


@pytest.fixture
def start_execd(tmp_path):
    """start_execd(token=, args=, env=, cwd=) for tests that need flags, an environment or an execd of their own."""
    started = []

    def start(**options):
        execd = Execd(**options)
        execd.tmp = tmp_path
        started.append(execd)
        return execd

    yield start
    for execd in started:
        execd.stop()
