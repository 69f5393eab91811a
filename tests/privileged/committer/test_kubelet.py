"""A container that was made as the kubelet makes it, and its image, which the kubelet can use."""

import pytest

from conftest import BASE, World
from cri import Cri
from registry import busybox_layer


@pytest.fixture
def node(tmp_path, registry):
    world = World(tmp_path, registry, cri=True)
    world.containerd.load("docker.io/library/pause:1", [busybox_layer()], Entrypoint=["sleep", "1000000"], Cmd=None)
    world.cri = Cri(world.containerd)
    yield world
    world.cri.close()
    world.containerd.close()


def test_a_pod_is_saved_and_starts_again_from_its_image_without_a_pull(node):
    first = node.cri.run("k-0", BASE, ["sleep", "1000000"])
    node.cri.exec(first, "sh", "-c", "echo kept > /kept; rm /etc/gone")
    image = node.image("kubelet")
    node.commit(f"sandbox:{image}", pod="k-0").digests()
    assert node.cri.exec(first, "cat", "/kept") == "kept\n", "it runs"
    while node.cri.image(image) is None:  # the kubelet's side of containerd learns of it by an event
        pass
    second = node.cri.run("k-1", image, ["sleep", "1000000"])
    assert node.cri.exec(second, "sh", "-c", "cat /kept; ls /etc/gone 2>/dev/null || true") == "kept\n"
    again = node.image("kubelet-again")
    node.commit(f"sandbox:{again}", pod="k-1").digests()
    assert len(node.manifest(again)[0]["layers"]) == 4
