import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))

from sandboxd_process import Sandboxd  # noqa: E402

if os.geteuid() != 0:
    pytest.exit("these tests need root", returncode=1)


@pytest.fixture(scope="module")
def daemon():
    """One sandboxd for a whole file; every test removes its sandboxes."""
    running = Sandboxd()
    yield running
    running.close()


@pytest.fixture
def make_daemon():
    """For tests that stop, kill or configure their own."""
    made = []

    def make(**options):
        made.append(Sandboxd(**options))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture(autouse=True)
def no_sandboxes_left(request):
    yield
    if "daemon" in request.fixturenames:
        request.getfixturevalue("daemon").remove_all()
