"""The btrfs in one file that holds what sandboxes write, and its life through crashes."""

import os
import subprocess

import httpx
import pytest

from sandboxd_process import Sandboxd, binary

MIB = 1 << 20
SIZE = 1024 * MIB


def loop_devices(daemon):
    """Those that the daemon's image has."""
    listed = subprocess.run(["losetup", "--noheadings", "--output", "NAME", "--associated", str(daemon.state / "disk.btrfs")],
                            check=True, capture_output=True, text=True)
    return listed.stdout.split()


def set_image_bytes(daemon, bytes):
    daemon.config.write_text(daemon.config.read_text().replace(f"image_bytes = {SIZE}", f"image_bytes = {bytes}"))


@pytest.fixture
def imaged():
    made = Sandboxd(settings={"disk": {"image_bytes": SIZE}})
    yield made
    made.close()


def test_the_image_is_sparse_and_seen_by_no_other_process(imaged):
    daemon = imaged
    daemon.create("one").output("head -c 8M /dev/urandom > /root/file")
    image = os.stat(daemon.state / "disk.btrfs")
    assert image.st_size == SIZE and image.st_blocks * 512 < SIZE // 2
    assert image.st_mode & 0o777 == 0o600
    assert os.listdir(daemon.state / "disk") == []  # mounted where only the daemon sees it
    assert len(loop_devices(daemon)) == 1


def test_sandboxes_and_volumes_survive_kills_and_restarts(imaged):
    daemon = imaged
    volume = {"kind": "named", "source": "data", "target": "/data", "create": True}
    sandbox = daemon.create("one", volumes=[volume])
    sandbox.output("echo layer > /root/file; echo volume > /data/file")
    device = loop_devices(daemon)
    for end in (daemon.kill, daemon.stop, daemon.kill):
        end()
        assert sandbox.output("cat /root/file /data/file") == "layer\nvolume"
        daemon.start()
        assert sandbox.output("echo layer > /root/file; cat /data/file") == "volume"
        assert loop_devices(daemon) == device
        assert daemon.create("two").output("echo works") == "works"
        daemon.remove("two")
    daemon.remove("one")
    assert daemon.create("three", volumes=[volume]).output("cat /data/file") == "volume"


def test_nothing_is_mounted_when_the_last_one_has_ended(imaged):
    daemon = imaged
    volume = {"kind": "named", "source": "data", "target": "/data", "create": True}
    daemon.create("one", volumes=[volume]).output("echo kept > /data/file && sync /data/file")
    daemon.remove("one")
    daemon.kill()
    # As after a reboot: the file alone is left.
    daemon.start()
    assert daemon.create("two", volumes=[volume]).output("cat /data/file") == "kept"
    daemon.remove("two")
    daemon.stop()
    assert loop_devices(daemon) == []
    daemon.start()


def test_the_image_grows_and_stays(imaged):
    daemon = imaged
    sandbox = daemon.create("one")
    sandbox.output("echo here > /root/file")
    daemon.stop()
    set_image_bytes(daemon, 2 * SIZE)
    daemon.start()
    assert int(sandbox.output("stat -f -c %b /")) * int(sandbox.output("stat -f -c %S /")) == 2 * SIZE
    # Without the setting the image that is there is used.
    daemon.stop()
    set_image_bytes(daemon, 2 * SIZE)
    daemon.config.write_text(daemon.config.read_text().replace(f"image_bytes = {2 * SIZE}", "image_bytes = 0"))
    daemon.start()
    assert sandbox.output("cat /root/file") == "here"
    assert daemon.create("two").output("echo works") == "works"


def test_a_half_made_image_is_made_anew():
    daemon = Sandboxd(settings={"disk": {"image_bytes": 0}})
    daemon.stop()
    (daemon.state / "disk.btrfs.new").write_bytes(b"half")
    daemon.config.write_text(daemon.config.read_text().replace("image_bytes = 0", f"image_bytes = {SIZE}"))
    daemon.start()
    assert daemon.create("one").output("stat -f -c %T /") == "overlayfs"
    assert not (daemon.state / "disk.btrfs.new").exists()
    daemon.close()


def test_an_image_hides_no_sandbox():
    daemon = Sandboxd()
    daemon.create("one")
    daemon.stop()
    daemon.config.write_text(daemon.config.read_text() + f"[disk]\nimage_bytes = {SIZE}\n")
    with pytest.raises(RuntimeError) as refused:
        daemon.start()
    assert "lies outside the image" in str(refused.value) and "sandboxes/one" in str(refused.value)
    assert not (daemon.state / "disk.btrfs").exists()
    daemon.config.write_text(daemon.config.read_text().replace(f"image_bytes = {SIZE}", "image_bytes = 0"))
    daemon.start()
    assert [each["id"] for each in daemon.list()] == ["one"]
    daemon.close()


def test_on_a_full_disk_sandboxes_are_paused_found_again_and_removed(imaged):
    daemon = imaged
    for name in ("one", "two"):  # more than the disk has
        code, text = daemon.create(name, limits={"disk_bytes": 600 * MIB}).run("head -c 700M /dev/zero > /root/file")
        assert code != 0 and ("quota" in text.lower() or "No space" in text), text
    status, problem = daemon.refused(id="late")
    assert (status, problem["code"]) == (429, "NATIVE::DISK_LOW"), problem
    for action in ("pause", "resume"):
        answer = daemon.client.post(f"/v1/sandboxes/two/{action}")
        assert answer.status_code == 204, answer.text
    daemon.kill()
    daemon.start()
    assert {each["id"] for each in daemon.list()} == {"one", "two"}
    daemon.remove("one")
    daemon.remove("two")


def inside(daemon, directory):
    """The names in a directory of the image, which only the daemon sees."""
    out = subprocess.run(["nsenter", "--target", str(daemon.pid), "--mount", "ls", str(daemon.state / "disk" / directory)],
                         check=True, capture_output=True, text=True)
    return out.stdout.split()


def test_a_create_that_is_cut_off_leaves_no_tree(imaged):
    daemon = imaged
    volume = {"kind": "named", "source": "data", "target": "/data", "create": True, "delete_with_sandbox": True}
    for step in ("directories", "record", "slot", "volumes", "cgroup", "launched", "started"):
        daemon.stop()
        daemon.start(env={"SANDBOXD_FAULT": step})
        with pytest.raises(httpx.TransportError):
            daemon.client.post("/v1/sandboxes", json={"id": "cut", "image": "host", "volumes": [volume]})
        daemon.process.wait()
        daemon.start()
        living = [each["id"] for each in daemon.list()]
        assert living == (["cut"] if step == "started" else []), step
        assert inside(daemon, "sandboxes") == living
        if living:
            daemon.remove("cut")
        daemon.stop()  # its trash is empty
        daemon.start()
        assert inside(daemon, "sandboxes") == inside(daemon, "trash") == inside(daemon, "volumes") == []


def test_check_names_the_means_and_its_cost(imaged):
    daemon = imaged
    def line(config):
        out = subprocess.run([binary("sandboxd"), "check", "--config", config, "--state-dir", str(daemon.state)],
                             capture_output=True, text=True).stdout
        return next(each for each in out.splitlines() if "disk limit" in each)
    assert "btrfs quota groups" in line(daemon.config) and "ms more" in line(daemon.config), line(daemon.config)
