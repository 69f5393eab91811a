import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))

from backend import backend, make_daemon  # noqa: E402
from server_process import Server  # noqa: E402
from spec_check import every_answer_checked  # noqa: E402

if os.geteuid() != 0:
    pytest.exit("these tests need root", returncode=1)

# On sandboxd every case runs. What execd and the server do by themselves is alike on all backends, and container engines
# are slow: there only the cases run that have one of these marks. BACKEND=docker without -m runs all of them by hand.
MARKERS = [
    "on_docker: rests on what a container engine does: tried on Docker too",
    "on_podman: rests on what Podman does otherwise than Docker: tried on both",
]


def pytest_configure(config):
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)


@pytest.fixture(scope="session", autouse=True)
def every_answer_is_in_the_document():
    with every_answer_checked(lambda url: url.host == "127.0.0.1" and url.port in Server.ports
                              and url.path != "/" and not url.path.startswith(("/docs", "/redoc"))):
        yield


@pytest.fixture(scope="session")
def daemon():
    running = make_daemon()
    yield running
    running.close()


@pytest.fixture(scope="module")
def server(daemon):
    """One server for a whole file; every test removes its sandboxes."""
    running = Server(daemon)
    yield running
    running.close()


@pytest.fixture(scope="session")
def spare_engines():
    """A container engine takes seconds to start with its images, so tests that need one to themselves take turns with
    one; sandboxd is made anew for each."""
    made = []
    yield made
    for each in made:
        each.close()


@pytest.fixture
def make_server(spare_engines):
    """For tests that stop, kill or configure their own: each has a daemon of its own, beside the one that the session
    has, in the same network namespace."""
    made, daemons = [], []

    def make(**options):
        if backend() == "native":
            daemon = make_daemon(1 + len(daemons))
            daemons.append(daemon)
        else:
            assert made == [], "one engine, one server"
            if not spare_engines:
                spare_engines.append(make_daemon(1))
            daemon = spare_engines[0]
        made.append(Server(daemon, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()
        if each.daemon in spare_engines:
            if not each.daemon.running:
                each.daemon.start()
            each.daemon.remove_all()
    for each in daemons:  # also of servers that did not start
        each.close()


@pytest.fixture(autouse=True)
def no_sandboxes_left(request):
    yield
    if "server" in request.fixturenames:
        request.getfixturevalue("server").remove_all()
