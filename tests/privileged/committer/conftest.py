"""A real containerd with real containers, and Debian's docker-registry."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TESTS / "support")]

from containerd_process import Containerd  # noqa: E402
from gate import Gate  # noqa: E402
from registry import PASSWORD, USER, Registry, busybox_layer, tar  # noqa: E402

if os.geteuid() != 0:
    pytest.exit("these tests need root", returncode=1)

ROOT = TESTS.parent
PROGRAM = os.environ.get("COMMITTER_BINARY") or str(ROOT / "build" / "release" / "bin" / "image-committer")
BASE = "docker.io/library/base:1"
PATIENCE = 240


class Outcome:
    def __init__(self, process, directory):
        self.output, self.errors = process.communicate(timeout=PATIENCE)
        self.status = process.returncode
        self.message = (directory / "message").read_text()

    def digests(self):
        assert self.status == 0, self.errors
        assert json.loads(self.output) == json.loads(self.message)
        return {each["name"]: each["digest"] for each in json.loads(self.output)["containers"]}


class World:
    """containerd with the image BASE and the container "one" of it, which is "sandbox" of pod a-0 in namespace boxes."""

    def __init__(self, directory, registry, **options):
        self.directory, self.registry = directory, registry
        self.containerd = Containerd(**options)
        try:
            self.load_base()
            self.containerd.run(BASE, "one")
        except BaseException:
            self.containerd.close()
            raise

    def load_base(self):
        lower = busybox_layer(etc__old="old\n", etc__gone="gone\n", tree=None, tree__a="a", tree__b="b")
        upper = tar({"etc/middle": "middle\n"})
        self.containerd.load(BASE, [lower, upper], Env=["PATH=/bin", "KEPT=yes"], WorkingDir="/tmp", Cmd=["cat", "/etc/new"])

    def image(self, tag, repository="snaps/a-sandbox"):
        return f"{self.registry.host}/{repository}:{tag}"

    def start(self, *words, socket=None, credentials=(USER, PASSWORD), **environment):
        """The program as the controller's job runs it, without its end."""
        config = self.directory / "config.json"
        auth = {"username": credentials[0], "password": credentials[1]} if credentials else None
        config.write_text(json.dumps({"auths": {self.registry.host: auth} if auth else {}}))
        (self.directory / "message").write_text("")
        command = [PROGRAM, "--credentials", config, "--message", self.directory / "message", *words]
        return subprocess.Popen([*map(str, command)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, env={"CONTAINERD_SOCKET": str(socket or self.containerd.socket),
                                                "SNAPSHOT_REGISTRY_INSECURE": "true", **environment})

    def finish(self, process):
        return Outcome(process, self.directory)

    def commit(self, *targets, pod="a-0", **options):
        return self.finish(self.start(pod, "boxes", *targets, **options))

    def gate(self, on_call=lambda number: True):
        return Gate(self.directory / "gate.sock", self.containerd.socket, on_call)

    def manifest(self, image):
        """As the registry has it, with its digest; None if it has none."""
        repository, tag = image.removeprefix(f"{self.registry.host}/").rsplit(":", 1)
        answer = self.registry.client.get(f"/v2/{repository}/manifests/{tag}",
                                          headers={"Accept": "application/vnd.oci.image.manifest.v1+json"})
        return None if answer.status_code == 404 else (answer.json(), answer.headers["Docker-Content-Digest"])

    def blob(self, image, digest):
        repository = image.removeprefix(f"{self.registry.host}/").rsplit(":", 1)[0]
        return self.registry.client.get(f"/v2/{repository}/blobs/{digest}").raise_for_status().content

    def run_elsewhere(self, image, script):
        """The output of a shell in a container of the pushed image, pulled by a containerd that does not have it: another
        namespace shares nothing with this one but the disk."""
        self.containerd.ctr("images", "pull", "--plain-http", "--user", f"{USER}:{PASSWORD}", image, namespace="elsewhere")
        self.containerd.run(image, "restored", namespace="elsewhere")
        try:
            return self.containerd.sh("restored", script, namespace="elsewhere")
        finally:
            self.containerd.remove("restored", namespace="elsewhere")
            self.containerd.ctr("images", "rm", "--sync", image, namespace="elsewhere")


@pytest.fixture(scope="session")
def registry(tmp_path_factory):
    made = Registry(tmp_path_factory.mktemp("registry"), tls=False)
    yield made
    made.close()


@pytest.fixture(scope="session")
def shared_world(tmp_path_factory, registry):
    made = World(tmp_path_factory.mktemp("world"), registry)
    yield made
    made.containerd.close()


@pytest.fixture
def world(shared_world):
    """After each test the container runs, and neither leases nor snapshots are left over."""
    before = shared_world.containerd.remains()
    yield shared_world
    assert shared_world.containerd.status("one") == "RUNNING"
    assert shared_world.containerd.remains() == before
