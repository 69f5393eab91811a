import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from backend import make_daemon  # noqa: E402
from server_process import Server  # noqa: E402

if os.geteuid() != 0:
    pytest.exit("these tests need root", returncode=1)


@pytest.fixture(scope="session")
def server():
    daemon = make_daemon()
    running = Server(daemon)
    yield running
    running.close()
    daemon.close()


@pytest.fixture(autouse=True)
def nothing_left(server):
    """A test that leaves a sandbox fails: the SDK's kill has to work."""
    yield
    left = server.daemon.list()
    server.remove_all()
    assert left == [], f"{left}\n{server.log()[-3000:]}"
