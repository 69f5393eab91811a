"""A real cluster for all tests of one run, with CRDs and controller; each test has a namespace of its own."""

import itertools
import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from cluster import Cluster, binary  # noqa: E402
from cluster_config import ADDRESS  # noqa: E402
from controller_process import Controller, install  # noqa: E402
from registry import Registry  # noqa: E402
from server_process import Server  # noqa: E402

COMMITTER_IMAGE = "opensandbox/image-committer:test"

if os.geteuid() != 0:
    pytest.exit("these tests need root", returncode=1)

numbers = itertools.count()


@pytest.fixture(scope="session")
def cluster():
    made = Cluster()
    yield made
    made.close()


@pytest.fixture(scope="session")
def registry(cluster, tmp_path_factory):
    """Where pods and nodes reach it. It wants credentials and has no TLS."""
    made = Registry(tmp_path_factory.mktemp("registry"), tls=False, address=ADDRESS)
    cluster.allow_plain_registry(made.host)
    yield made
    made.close()


@pytest.fixture(scope="session")
def controller(cluster, registry):
    install(cluster)
    cluster.load_ours("image-committer", binary("image-committer", "COMMITTER_BINARY"), COMMITTER_IMAGE)
    running = Controller(cluster, "--image-committer-image", COMMITTER_IMAGE, "--snapshot-registry", f"{registry.host}/snaps",
                         "--snapshot-registry-insecure", "--snapshot-push-secret", "registry", "--resume-pull-secret", "registry",
                         "--containerd-socket-path", cluster.settings.containerd_socket)
    yield running
    running.stop()


@pytest.fixture(scope="session")
def server(cluster, controller):
    cluster.namespace(cluster.sandboxes)
    running = Server(cluster)
    yield running
    running.close()


@pytest.fixture
def ns(cluster):
    name = f"test-{next(numbers)}"
    cluster.namespace(name)
    yield name
    cluster.delete(f"/api/v1/namespaces/{name}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """A failure shows the ends of all logs."""
    report = yield
    if report.failed and call.when == "call" and "cluster" in getattr(item, "funcargs", {}):
        report.sections.append(("logs of the cluster", item.funcargs["cluster"].log()[-20000:]))
        for name in ("controller", "server"):
            if name in item.funcargs:
                report.sections.append((f"log of the {name}", item.funcargs[name].log()[-8000:]))
    return report
