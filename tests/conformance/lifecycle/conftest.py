import itertools
import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))

from sandboxd_process import Sandboxd  # noqa: E402
from server_process import Server  # noqa: E402

if os.geteuid() != 0:
    pytest.exit("these tests need root", returncode=1)


@pytest.fixture(scope="session")
def daemon():
    running = Sandboxd()
    yield running
    running.close()


@pytest.fixture(scope="module")
def server(daemon):
    """One server for a whole file; every test removes its sandboxes."""
    running = Server(daemon)
    yield running
    running.close()


networks = itertools.count(1)


def another_daemon():
    """Beside the one that the session has: in the same network namespace, with a network of its own."""
    number = next(networks)
    return Sandboxd(settings={"network": {"subnet": f"10.{90 + number}.0.0/16", "table": f"osb_test_{number}",
                                          "interface_prefix": f"osb{number}-"}})


@pytest.fixture
def make_server():
    """For tests that stop, kill or configure their own: each has a sandboxd of its own. Two daemons cannot share a
    network, so a file uses either this or `server`."""
    made = []

    def make(**options):
        made.append(Server(another_daemon(), **options))
        return made[-1]

    yield make
    for each in made:
        each.close()
        each.daemon.close()


@pytest.fixture(autouse=True)
def no_sandboxes_left(request):
    yield
    if "server" in request.fixturenames:
        request.getfixturevalue("server").remove_all()
