"""An ext4 in a file for each sandbox and volume: limits on hosts without quotas, and their life through crashes."""

import os
import subprocess
import uuid

import httpx
import pytest

from sandboxd_process import Sandboxd, binary

MIB = 1 << 20
LIMIT = 48 * MIB
DEFAULT = 256 * MIB
VOLUME = {"kind": "named", "source": "data", "target": "/data", "create": True}
SETTINGS = {"disk": {"image_files": True, "volume_bytes": LIMIT}, "sandbox": {"default_disk_bytes": DEFAULT}}


@pytest.fixture
def imaged():
    made = Sandboxd(settings=SETTINGS)
    yield made
    made.close()


def loop_devices(daemon):
    """Names of files that have a device, below the state directory."""
    listed = subprocess.run(["losetup", "--noheadings", "--output", "BACK-FILE"], check=True, capture_output=True, text=True)
    return [line.strip() for line in listed.stdout.splitlines() if str(daemon.state) in line]


def fill(sandbox, directory, megabytes):
    """Writes until it fails; the bytes that were written."""
    sandbox.run(f"head -c {megabytes}M /dev/zero > {directory}/fill; sync")
    return int(sandbox.output(f"stat -c %s {directory}/fill"))


@pytest.mark.parametrize("limit", [LIMIT, DEFAULT, 2 * DEFAULT])  # below, as and above the prepared size
def test_a_sandbox_gets_its_limit_and_no_more(imaged, limit):
    daemon = imaged
    limits = {} if limit == DEFAULT else {"limits": {"disk_bytes": limit}}
    sandbox = daemon.create("one", **limits)
    neighbour = daemon.create("two")
    written = fill(sandbox, "/root", limit // MIB + 64)
    assert limit - 4 * MIB <= written <= limit, (written / MIB, limit / MIB)
    assert neighbour.output("head -c 16M /dev/zero > /root/room && stat -c %s /root/room") == str(16 * MIB)
    assert sandbox.output("rm /root/fill && echo room > /root/file && cat /root/file") == "room"


def test_files_of_one_sandbox_take_no_inode_of_another(imaged):
    daemon = imaged
    sandbox = daemon.create("one", limits={"disk_bytes": LIMIT})
    code, text = sandbox.run("mkdir /root/many && cd /root/many && seq 100000 | xargs touch")
    assert code != 0 and "No space" in text, text
    assert daemon.create("two").output("seq 1000 | xargs touch && echo fine") == "fine"


def test_a_volume_has_a_limit_and_is_kept(imaged):
    daemon = imaged
    writer = daemon.create("writer", volumes=[VOLUME])
    writer.output("echo kept > /data/file && sync /data/file")
    assert LIMIT - 4 * MIB <= fill(writer, "/data", 100) <= LIMIT
    assert writer.output("ls -A /data | sort") == "file\nfill"
    daemon.remove("writer")
    daemon.kill()
    daemon.start()
    again = daemon.create("again", volumes=[VOLUME])
    assert again.output("cat /data/file; rm /data/fill") == "kept"
    assert LIMIT - 4 * MIB <= fill(again, "/data", 100) <= LIMIT
    daemon.remove("again")
    assert daemon.client.delete("/v1/volumes/data").status_code == 204
    assert not (daemon.state / "volumes" / "data").exists()


def test_limits_and_files_survive_kills_and_restarts(imaged):
    daemon = imaged
    sandbox = daemon.create("one", volumes=[VOLUME], limits={"disk_bytes": LIMIT})
    sandbox.output("echo layer > /root/file; echo volume > /data/file")
    for end in (daemon.kill, daemon.stop, daemon.kill):
        end()
        assert sandbox.output("cat /root/file /data/file") == "layer\nvolume"
        assert fill(sandbox, "/root", 100) <= LIMIT
        daemon.start()
        assert [each["state"] for each in daemon.list()] == ["running"]
        sandbox.output("rm /root/fill")
        assert LIMIT - 4 * MIB <= fill(sandbox, "/root", 100) <= LIMIT
        sandbox.output("rm /root/fill")
        assert daemon.create("two", volumes=[VOLUME]).output("cat /data/file") == "volume"
        daemon.remove("two")
    daemon.remove("one")


def test_a_snapshot_holds_the_files(imaged):
    daemon = imaged
    daemon.create("one").output("echo snap > /root/file")
    id = str(uuid.uuid4())
    answer = daemon.client.post("/v1/sandboxes/one/snapshots", json={"id": id})
    assert answer.status_code == 201, answer.text
    copy = daemon.create("copy", image="", snapshot=id)
    assert copy.output("cat /root/file") == "snap"


def test_removed_sandboxes_leave_neither_file_nor_device(imaged):
    daemon = imaged
    for name in ("one", "two", "three"):
        daemon.create(name).output("echo x > /root/file")
    for name in ("one", "two", "three"):
        daemon.remove(name)
    daemon.stop()
    assert os.listdir(daemon.state / "sandboxes") == []
    assert loop_devices(daemon) == []
    daemon.start()


def test_a_create_that_is_cut_off_leaves_no_image(imaged):
    daemon = imaged
    for step in ("directories", "record", "slot", "volumes", "cgroup", "launched"):
        daemon.stop()
        daemon.start(env={"SANDBOXD_FAULT": step})
        with pytest.raises(httpx.TransportError):
            daemon.client.post("/v1/sandboxes", json={"id": "cut", "image": "host"})
        daemon.process.wait()
        daemon.start()
        assert daemon.list() == [], step
        daemon.stop()  # its trash is empty
        assert os.listdir(daemon.state / "sandboxes") == os.listdir(daemon.state / "trash") == [], step
        assert loop_devices(daemon) == [], step
        daemon.start()


def test_image_files_hide_no_sandbox_and_stay_in_use():
    daemon = Sandboxd()
    daemon.create("one")
    daemon.stop()
    plain = daemon.config.read_text()
    daemon.config.write_text(plain + "[disk]\nimage_files = true\n")
    with pytest.raises(RuntimeError) as refused:
        daemon.start()
    assert "image_files" in str(refused.value) and "sandboxes/one" in str(refused.value)
    daemon.config.write_text(plain)
    daemon.start()
    daemon.remove("one")
    daemon.stop()
    daemon.config.write_text(plain + "[disk]\nimage_files = true\n")
    daemon.start()
    sandbox = daemon.create("two")
    sandbox.output("echo here > /root/file")
    daemon.stop()
    daemon.config.write_text(plain)  # without the setting
    daemon.start()
    assert sandbox.output("cat /root/file") == "here"
    daemon.close()


def test_check_names_the_means_and_its_cost(imaged):
    daemon = imaged
    out = subprocess.run([binary("sandboxd"), "check", "--config", daemon.config, "--state-dir", str(daemon.state)],
                         capture_output=True, text=True).stdout
    line = next(each for each in out.splitlines() if "disk limit" in each)
    assert "image file for each sandbox" in line and "ms more" in line, line
