import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))

import crash_checks  # noqa: E402
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
def make_daemon(request):
    """For tests that stop, kill or configure their own. Those that run beside another one have their own networks."""
    others = any("daemon" in item.fixturenames for item in request.session.items if item.path == request.node.path)
    made = []

    def make(settings=None, **options):
        settings = dict(settings or {})
        if number := others + len(made):
            network = {"subnet": f"10.{110 + number}.0.0/16", "table": f"osb_made_{number}", "interface_prefix": f"osbm{number}-"}
            settings["network"] = {**network, **settings.get("network", {})}
        made.append(Sandboxd(settings=settings, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def crashing(make_daemon):
    """One with few addresses, to be killed."""
    return make_daemon(settings=crash_checks.SETTINGS)


@pytest.fixture
def bystander(crashing):
    """A sandbox that has nothing to do with the crash."""
    sandbox = crashing.create("bystander", ports=[{"port": 8080}])
    sandbox.output("echo kept > /root/file")
    return sandbox


@pytest.fixture(autouse=True)
def no_sandboxes_left(request):
    yield
    if "daemon" in request.fixturenames:
        request.getfixturevalue("daemon").remove_all()
