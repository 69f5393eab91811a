"""Fixtures of the attacks, and the report that docs/attacks.md is made from. README.md says how to write an attack."""

import json
import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))

from net_world import Internet  # noqa: E402
from policy_walls import inmate, newcomer, shared, walls  # noqa: E402, F401
from prison import KINDS, Prison  # noqa: E402
from sandboxd_process import Sandboxd  # noqa: E402
from vault_world import holder, shared_holder, vaults  # noqa: E402, F401

if os.geteuid() != 0:
    pytest.exit("these tests need root", returncode=1)

KIND = os.environ.get("BACKEND", "native")
INSIDE = "code in the sandbox"


def pytest_configure(config):
    config.addinivalue_line("markers", "wall(name, second): of a file: the wall that its attacks try, and the wall behind it")
    config.addinivalue_line("markers", "attack(by, on, holds_on_podman): who attacks, the backends where that is possible, and "
                            "False for a wall that Podman's own profile lacks")
    config.addinivalue_line("markers", "alike: the wall is all in the egress program, which does in gVisor what it does on "
                            "sandboxd, and on Podman what it does on Docker: tried on one of each two")


def pytest_collection_modifyitems(config, items):
    """A run is on one backend. Attacks that need no `prison` concern one backend, native unless they say otherwise."""
    assert KIND in KINDS, f"BACKEND={KIND} is none of {KINDS}"
    chosen = [item for item in items if KIND in backends(item)]
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = chosen


def backends(item):
    mark = item.get_closest_marker("attack")
    default = " ".join(KINDS) if {"prison", "prisoner"} & set(item.fixturenames) else "native"
    found = (mark.kwargs.get("on", default) if mark else default).split()
    if "docker" in found and "podman" not in found and not (mark and mark.kwargs.get("holds_on_podman") is False):
        found.append("podman")  # both make containers
    if item.get_closest_marker("alike"):
        found = [each for each in found if each not in ("gvisor", "podman")]
    return found


@pytest.fixture(scope="session")
def whole_prison():
    made = Prison(KIND)
    yield made
    made.close()


@pytest.fixture
def prison(whole_prison):
    """For attacks that make sandboxes of their own; they are removed afterwards."""
    yield whole_prison
    whole_prison.remove_all_but_shared()


@pytest.fixture
def prisoner(prison):
    """One sandbox for all attacks that do it no harm."""
    return prison.shared()


@pytest.fixture
def make_daemon():
    """For attacks on a sandboxd that is configured for them: it lives in the same network namespace as the others."""
    made = []

    def make(settings=None, **options):
        number = 1 + len(made)
        network = {"subnet": f"10.{90 + number}.0.0/16", "table": f"osb_test_{number}", "interface_prefix": f"osb{number}-"}
        settings = dict(settings or {})
        settings["network"] = {**network, **settings.get("network", {})}
        made.append(Sandboxd(settings=settings, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture(scope="module")
def internet():
    made = Internet()
    yield made
    made.close()


@pytest.fixture(scope="module")
def whole_daemon(internet, request):
    """A sandboxd with the NETWORK of the file."""
    made = Sandboxd(settings={"network": request.module.NETWORK})
    yield made
    made.close()


@pytest.fixture
def daemon(whole_daemon):
    yield whole_daemon
    whole_daemon.remove_all()


# --- the report

attempts = {}


def words(name):
    return name.removeprefix("test_").replace("_", " ")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if report.when != "call" and not report.failed and not report.skipped:
        return
    wall = item.get_closest_marker("wall")
    if wall is None:
        return
    mark = item.get_closest_marker("attack")
    row = attempts.setdefault((item.path.name, item.originalname), {
        "wall": wall.args[0], "second": wall.kwargs.get("second", ""), "file": item.path.name,
        "attack": words(item.originalname), "by": (mark.kwargs.get("by") if mark else None) or INSIDE, "ways": 0, "held": 0})
    row["ways"] += 1
    row["held"] += report.passed


def pytest_sessionfinish(session):
    report = os.environ.get("ATTACKS_REPORT")
    if report and attempts:
        pathlib.Path(report).parent.mkdir(parents=True, exist_ok=True)
        pathlib.Path(report).write_text(json.dumps(list(attempts.values()), indent=1))
