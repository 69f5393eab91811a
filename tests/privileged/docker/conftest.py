import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))

from docker_engine import Engine  # noqa: E402
from registry import Registry  # noqa: E402
from server_process import Server  # noqa: E402

if os.geteuid() != 0:
    pytest.exit("these tests need root", returncode=1)


class SmallServer(Server):
    """Sandboxes are of busybox unless a test says otherwise."""

    def post_sandbox(self, **fields):
        return super().post_sandbox(**{"image": {"uri": "busybox"}, "entrypoint": ["sleep", "1000"], **fields})


@pytest.fixture(scope="session")
def engine():
    """One dockerd for all tests that do it no harm."""
    running = Engine(host_image=False)
    running.load_busybox()
    yield running
    running.close()


shared = []


@pytest.fixture(scope="module")
def server(engine):
    running = SmallServer(engine)
    shared.append(running)
    yield running
    shared.remove(running)
    running.close()


@pytest.fixture
def make_server(engine):
    """For tests that stop, kill or configure their own. The first argument may be another engine. Servers on one engine
    take each other's sandboxes for lost ones of their own, so `server` rests meanwhile."""
    made, resting = [], []

    def make(on=engine, **options):
        for each in shared:
            if on is engine and each not in resting:
                each.stop()
                resting.append(each)
        made.append(SmallServer(on, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()
    for each in resting:
        each.start()


def engine_beside(number, **options):
    made = Engine(number, host_image=False, **options)
    made.load_busybox()
    return made


@pytest.fixture
def own_engine():
    """For tests that leave it broken or set it up otherwise: beside the one of the session, one at a time."""
    made = []

    def make(**options):
        assert made == []
        made.append(engine_beside(2, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture(scope="session")
def engine_to_stop():
    running = engine_beside(1)
    yield running
    running.close()


@pytest.fixture
def spare_engine(engine_to_stop):
    """For tests that stop or kill it, between two requests: it is as before when it has been started again."""
    yield engine_to_stop
    if not engine_to_stop.running:
        engine_to_stop.start()
    engine_to_stop.remove_all()


@pytest.fixture(scope="session")
def registry(tmp_path_factory):
    running = Registry(tmp_path_factory.mktemp("registry"))
    yield running
    running.close()


@pytest.fixture(autouse=True)
def nothing_left(request, engine):
    """A test leaves the engine as it found it, without containers."""
    before = engine.inventory()
    yield
    if "server" in request.fixturenames:
        request.getfixturevalue("server").remove_all()
    after = engine.inventory()
    engine.remove_all()
    assert after == {**before, "containers": []}
