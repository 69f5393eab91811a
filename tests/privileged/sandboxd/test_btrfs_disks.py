"""A btrfs of the operator, as `[disk] directory` and below the whole state directory, with the quotas of new kernels and
with those of kernels before 6.7."""

import contextlib
import os
import subprocess
import tempfile

import pytest

from registry import busybox_layer, docker_archive, tar
from sandboxd_process import Sandboxd, binary

MIB = 1 << 20
LIMIT = 48 * MIB


def run(*command):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


@contextlib.contextmanager
def btrfs(size=1024 * MIB, options="noatime"):
    """A mounted btrfs in a file that is removed afterwards."""
    with tempfile.NamedTemporaryFile() as file, tempfile.TemporaryDirectory(prefix="osb-") as mounted:  # sockets: short names
        image = file.name
        file.truncate(size)
        run("mkfs.btrfs", "--quiet", "--mixed", image)
        run("mount", "-o", f"loop,{options}", image, mounted)
        try:
            yield mounted
        finally:
            run("umount", "--lazy", mounted)


@pytest.fixture(params=["simple quotas", "full quotas"])
def disk(request):
    with btrfs() as mounted:
        if request.param == "full quotas":
            run("btrfs", "quota", "enable", mounted)
            run("btrfs", "quota", "rescan", "-w", mounted)
        yield mounted


@pytest.fixture
def limited(disk):
    running = Sandboxd(settings={"disk": {"directory": disk, "volume_bytes": LIMIT}, "sandbox": {"default_disk_bytes": LIMIT}})
    yield running
    running.close()


FILL = "python3 -c 'import os\nf = open(\"{}\", \"wb\", 0)\nfor _ in range({}): f.write(b\"x\" * 1048576)\nos.fsync(f.fileno())'"


def fill(sandbox, path, mebibytes):
    """(whether it could write so much, the output)."""
    code, text = sandbox.run(FILL.format(path, mebibytes))
    return code == 0, text


def assert_full(result):
    fitted, text = result
    assert not fitted and ("Disk quota exceeded" in text or "No space left" in text), text


def test_each_sandbox_and_volume_has_a_limit_of_its_own(limited, disk):
    volume = {"kind": "named", "source": "data", "target": "/data", "create": True}
    one = limited.create("one", volumes=[volume])
    two = limited.create("two", limits={"disk_bytes": 96 * MIB})
    assert_full(fill(one, "/root/file", 60))
    assert_full(fill(one, "/data/file", 60))
    assert fill(two, "/root/file", 60)[0], "the request's limit is larger"
    assert_full(fill(two, "/root/more", 60))
    assert one.output("rm /root/file && echo again > /root/file && cat /root/file") == "again"
    assert os.path.isdir(f"{disk}/sandboxes/one/tree")


def test_limits_outlive_the_daemon_and_go_with_the_sandbox(limited, disk):
    one = limited.create("one")
    one.output("echo kept > /root/kept")
    limited.kill()
    limited.start()
    assert one.output("cat /root/kept") == "kept"
    assert_full(fill(one, "/root/file", 60))
    limited.remove("one")
    assert not os.path.exists(f"{disk}/sandboxes/one")
    for number in range(4):  # their space comes back
        again = limited.create(f"again-{number}")
        assert fill(again, "/root/file", 30)[0]
        limited.remove(f"again-{number}")


def test_the_check_names_the_means(disk, tmp_path):
    config = tmp_path / "sandboxd.toml"
    config.write_text(f'[disk]\ndirectory = "{disk}"\n')
    said = subprocess.run([binary("sandboxd"), "check", "--config", config], capture_output=True, text=True).stdout
    line = next(line for line in said.splitlines() if line.startswith("disk limit"))
    assert "btrfs" in line, said


@pytest.fixture
def on_btrfs():
    """A daemon whose state directory, layers of images included, is on a btrfs with quotas."""
    with btrfs() as mounted:
        run("btrfs", "quota", "enable", mounted)
        os.chmod(mounted, 0o711)
        running = Sandboxd(directory=mounted, settings={"sandbox": {"default_disk_bytes": LIMIT}})
        yield running
        running.close()


def test_a_state_directory_on_btrfs_needs_no_other_disk(on_btrfs):
    volume = {"kind": "named", "source": "data", "target": "/data", "create": True}
    sandbox = on_btrfs.create("one", volumes=[volume])
    assert_full(fill(sandbox, "/root/file", 60))
    assert on_btrfs.create("two").output("echo room > /root/file; cat /root/file") == "room"
    on_btrfs.kill()
    on_btrfs.start()
    assert sandbox.output("rm /root/file; echo room > /data/file; cat /data/file") == "room"
    snapshot = "00000000-0000-4000-8000-000000000001"
    assert on_btrfs.client.post("/v1/sandboxes/two/snapshots", json={"id": snapshot}).status_code == 201
    again = on_btrfs.create("three", image="", snapshot=snapshot)
    assert again.output("cat /root/file") == "room"


def test_no_two_files_pass_for_one(on_btrfs):
    """Subvolumes count inodes from the same number, and layers of images and what a sandbox writes are in different ones."""
    files = {f"many/{number}": b"lower" for number in range(400)}
    loaded = on_btrfs.client.post("/v1/images/load", content=docker_archive("many:1", [busybox_layer(), tar(files)]))
    assert loaded.status_code == 200, loaded.text
    sandbox = on_btrfs.create("one", image="many:1", entrypoint=["sleep", "1000"])
    sandbox.output("mkdir /own; for i in $(busybox seq 0 399); do echo upper > /own/$i; done")
    twice = "find /many /own -type f -exec stat -c %d:%i {} + | busybox sort | busybox uniq -d | busybox wc -l"
    assert sandbox.output(twice) == "0"
    moved = "for i in $(busybox seq 0 399); do busybox mv /own/$i /many/$i || exit 1; done; cat /many/* | busybox sort | busybox uniq -c"
    assert sandbox.output(moved).split() == ["400", "upper"]


def test_quotas_that_are_off_stay_off_until_the_operator_decides(tmp_path):
    with btrfs() as mounted:
        said = subprocess.run([binary("sandboxd"), "check", "--state-dir", f"{mounted}/state"], capture_output=True, text=True)
        assert "quotas are off" in said.stdout and f"btrfs quota enable --simple {mounted}" in said.stdout, said.stdout
        daemon = Sandboxd(directory=mounted)
        os.chmod(mounted, 0o711)
        try:
            assert daemon.create("one").output("echo works") == "works"
            status, problem = daemon.refused(id="two", limits={"disk_bytes": LIMIT})
            assert status == 501 and "no limits for directories" in problem["message"], problem
            assert subprocess.run(["btrfs", "qgroup", "show", mounted], capture_output=True).returncode != 0
        finally:
            daemon.close()
