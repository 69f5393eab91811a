"""image-committer saves containers of a real containerd and pushes them to a real registry."""

import gzip
import io
import json
import subprocess
import tarfile

import pytest

from conftest import BASE, PROGRAM, ROOT
from registry import PASSWORD, USER, digest_of, tar

# VFS_CAP_REVISION_2 with cap_net_bind_service, as setcap writes it.
CAPABILITY = bytes.fromhex("0100000200040000000000000000000000000000")


def test_a_saved_container_runs_again_from_the_registry(world):
    world.containerd.sh("one", "echo new > /etc/new; echo changed >> /etc/old; rm /etc/gone; rm -r /tree; mkdir /tree; "
                               "echo c > /tree/c; mkdir -m 750 /mine; echo x > /mine/x; busybox ln -s x /mine/link; "
                               "busybox ln /mine/x /mine/hard; busybox chown -R 1234:1235 /mine; busybox chmod 4711 /mine/x")
    world.containerd.set_attribute("one", "/mine/x", "security.capability", CAPABILITY)
    image = world.image("whole")
    digest = world.commit(f"sandbox:{image}").digests()["sandbox"]
    manifest, stored = world.manifest(image)
    assert digest == stored
    shown = world.run_elsewhere(image, "cat /etc/new /etc/old /etc/middle; ls /etc/gone /tree/a 2>/dev/null; ls /tree; "
                                       "stat -c '%n %u:%g %a %h' /mine /mine/x; cat /mine/link; id -u")
    assert shown.split("\n") == ["new", "old", "changed", "middle", "c", "/mine 1234:1235 750 2", "/mine/x 1234:1235 4711 2", "x",
                                 "0", ""]
    config = json.loads(world.blob(image, manifest["config"]["digest"]))
    assert config["config"]["Env"] == ["PATH=/bin", "KEPT=yes"] and config["config"]["WorkingDir"] == "/tmp"
    assert config["config"]["Cmd"] == ["cat", "/etc/new"]
    layer = gzip.decompress(world.blob(image, manifest["layers"][-1]["digest"]))
    assert config["rootfs"]["diff_ids"][-1] == digest_of(layer) and len(config["rootfs"]["diff_ids"]) == 3
    with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
        by_name = {each.name: each for each in archive}
    assert "etc/.wh.gone" in by_name and "etc/middle" not in by_name
    kept = [each for each in by_name.values() if "SCHILY.xattr.security.capability" in each.pax_headers]
    assert [each.name for each in kept if each.isreg()], "file capabilities are kept"


def test_a_snapshot_of_a_snapshot_has_both_layers(world):
    first, second = world.image("first"), world.image("second")
    world.containerd.sh("one", "echo 1 > /generation")
    world.commit(f"sandbox:{first}").digests()
    # The name is in containerd, too: a pod on this node needs no pull.
    world.containerd.run(first, "two", pod="b-0")
    try:
        world.containerd.sh("two", "echo 2 >> /generation")
        world.commit(f"sandbox:{second}", pod="b-0").digests()
    finally:
        world.containerd.remove("two")
    assert len(world.manifest(second)[0]["layers"]) == 4
    assert world.run_elsewhere(second, "cat /generation") == "1\n2\n"
    for image in (first, second):
        world.containerd.ctr("images", "rm", "--sync", image)


def test_all_containers_of_a_pod_stand_still_while_their_files_are_read(world):
    states = []

    def look(_):
        states.append((world.containerd.status("one"), world.containerd.status("side")))
        return True

    targets = f"sandbox:{world.image('both')}", f"side:{world.image('both', 'snaps/a-side')}"
    world.containerd.run(BASE, "side", container="side")
    try:
        with world.gate(look) as gate:
            assert set(world.commit(*targets, socket=gate.path).digests()) == {"sandbox", "side"}
    finally:
        world.containerd.remove("side")
    assert states[0] == states[-1] == ("RUNNING", "RUNNING")
    still = [index for index, each in enumerate(states) if each == ("PAUSED", "PAUSED")]
    # A view, the mounts, the layer, the view's removal, the layer's facts and the state: for each of the two.
    assert len(still) >= 12 and still == list(range(still[0], still[-1] + 1)), states
    # The images, which are written and pushed afterwards, are most of the rest.
    assert len(states) - still[-1] > 10
    assert all(world.manifest(target.split(":", 1)[1]) for target in targets)


def test_an_image_whose_name_has_moved_is_found_by_its_layers(world):
    world.containerd.ctr("images", "tag", BASE, "docker.io/library/kept:1")
    other = tar({"other": "image"})
    world.containerd.load(BASE, [other], unpack=False)
    image = world.image("moved")
    try:
        world.commit(f"sandbox:{image}").digests()
        assert len(world.manifest(image)[0]["layers"]) == 3
        world.containerd.ctr("images", "tag", "--force", "docker.io/library/kept:1", "docker.io/library/elsewhere:1")
        for name in ("docker.io/library/kept:1", "docker.io/library/elsewhere:1", image):
            world.containerd.ctr("images", "rm", name)
        # Nothing but images of earlier tests may stand for its layers now, and those have one more.
        gone = world.commit(f"sandbox:{world.image('never')}")
        assert gone.status == 1 and "is no longer in containerd: pull it again" in gone.message
        assert world.manifest(world.image("never")) is None
    finally:
        world.load_base()


def test_the_living_one_of_several_containers_of_a_name_is_saved(world):
    world.containerd.run(BASE, "earlier", command=("sh", "-c", "echo ended > /which"))
    try:
        while world.containerd.status("earlier") != "STOPPED":
            pass
        world.containerd.sh("one", "echo lives > /which")
        world.commit(f"sandbox:{world.image('living')}").digests()
        assert world.run_elsewhere(world.image("living"), "cat /which") == "lives\n"
    finally:
        world.containerd.remove("earlier")


@pytest.mark.parametrize("ids", [("aaa", "zzz"), ("zzz", "aaa")])
def test_of_two_pods_of_a_name_the_newer_is_saved(world, ids):
    """The older one is gone for the cluster, and its processes are still being ended."""
    for id in ids:
        world.containerd.run(BASE, id, pod="e-0")
        world.containerd.sh(id, f"echo {id} > /which")
    try:
        world.commit(f"sandbox:{world.image('newer')}", pod="e-0").digests()
        assert world.run_elsewhere(world.image("newer"), "cat /which") == f"{ids[1]}\n"
    finally:
        for id in ids:
            world.containerd.remove(id)


def test_an_ended_container_is_saved_as_it_is(world):
    world.containerd.run(BASE, "ended", pod="c-0", command=("sh", "-c", "echo last > /words"))
    try:
        while world.containerd.status("ended") != "STOPPED":
            pass
        world.commit(f"sandbox:{world.image('ended')}", pod="c-0").digests()
        assert world.run_elsewhere(world.image("ended"), "cat /words") == "last\n"
    finally:
        world.containerd.remove("ended")


def test_a_container_that_has_changed_nothing_is_saved_too(world):
    world.containerd.run(BASE, "fresh", pod="d-0")
    try:
        world.commit(f"sandbox:{world.image('fresh')}", pod="d-0").digests()
        assert world.run_elsewhere(world.image("fresh"), "cat /etc/old") == "old\n"
    finally:
        world.containerd.remove("fresh")


# The capabilities of a container of containerd unless it is told otherwise.
CAPABILITIES = ("CHOWN DAC_OVERRIDE FSETID FOWNER MKNOD NET_RAW SETGID SETUID SETFCAP SETPCAP NET_BIND_SERVICE SYS_CHROOT KILL "
                "AUDIT_WRITE").split()


def test_its_own_image_needs_no_right_but_the_socket(world, tmp_path):
    """As the controller's job runs it (src/controller/snapshot/commit_job.cc)."""
    archive = tmp_path / "image.tar"
    subprocess.run([ROOT / "scripts" / "images", "image-committer", "--no-load", "--program", PROGRAM, "--name", "committer:1",
                    "--out", archive], check=True, stdout=subprocess.DEVNULL)
    world.containerd.ctr("images", "import", "-", input=archive.read_bytes(), namespace="elsewhere")
    (tmp_path / "config.json").write_text(json.dumps({"auths": {world.registry.host: {"username": USER, "password": PASSWORD}}}))
    (tmp_path / "message").write_text("")
    mounts = {world.containerd.socket: "/var/run/containerd/containerd.sock", tmp_path / "message": "/dev/termination-log",
              tmp_path: "/var/run/opensandbox/registry"}
    image = world.image("by-image")
    try:
        shown = world.containerd.ctr(
            "run", "--rm", "--net-host", "--read-only", "--cgroup", f"/{world.containerd.cgroup}/committer",
            "--env", "SNAPSHOT_REGISTRY_INSECURE=true", "--env", "CONTAINERD_SOCKET=/var/run/containerd/containerd.sock",
            *(word for each in CAPABILITIES for word in ("--cap-drop", f"CAP_{each}")),
            *(word for source, target in mounts.items() for word in ("--mount", f"type=bind,src={source},dst={target},options=rbind")),
            "docker.io/library/committer:1", "committer", "/usr/local/bin/image-committer", "a-0", "boxes", f"sandbox:{image}",
            namespace="elsewhere")
        assert json.loads(shown) == json.loads((tmp_path / "message").read_text())
        assert json.loads(shown)["containers"] == [{"name": "sandbox", "image": image, "digest": world.manifest(image)[1]}]
    finally:
        world.containerd.remove("committer", namespace="elsewhere")
