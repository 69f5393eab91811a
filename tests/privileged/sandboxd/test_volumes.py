"""Directories of the host and of others, seen in a sandbox."""

import os
import pathlib
import tempfile

import pytest

from attack import attack
from sandboxd_process import Sandboxd


@pytest.fixture(scope="module")
def host():
    """A directory `shared` that sandboxes may see, beside `secret`, which they may not."""
    with tempfile.TemporaryDirectory(prefix="osb-volumes-") as directory:
        base = pathlib.Path(directory)
        for name in ("shared", "secret", "shared-not"):
            (base / name).mkdir()
            (base / name / "file").write_text(name)
        yield base


@pytest.fixture(scope="module")
def daemon(host):
    running = Sandboxd(settings={"sandbox": {"allowed_host_paths": [str(host / "shared")]}})
    yield running
    running.close()


@pytest.fixture(autouse=True)
def clean(daemon):
    yield
    daemon.remove_all()
    for name in names(daemon):
        assert daemon.client.delete(f"/v1/volumes/{name}").status_code == 204


def names(daemon):
    return daemon.client.get("/v1/volumes").json()["volumes"]


def mount(kind, source="", target="/data", **more):
    return [{"kind": kind, "source": str(source), "target": target, **more}]


def test_a_host_path_is_read_and_written(daemon, host):
    sandbox = daemon.create("host", volumes=mount("host", host / "shared"))
    assert sandbox.output("cat /data/file") == "shared"
    sandbox.output("echo new > /data/made; mkdir -p /data/deep/er")
    assert (host / "shared" / "made").read_text() == "new\n"
    assert (host / "shared" / "made").stat().st_uid == 0  # as the directory, which root alone can reach
    (host / "shared" / "made").unlink()


def test_read_only_means_read_only(daemon, host):
    sandbox = daemon.create("reader", volumes=mount("host", host / "shared", read_only=True))
    assert attack(sandbox, """
report([opened('/data/file'), opened('/data/file', os.O_WRONLY), attempt(os.unlink, '/data/file'),
        attempt(os.chmod, '/data/file', 0o777), attempt(os.mkdir, '/data/new'), attempt(os.utime, '/data/file')])
""") == ["opened"] + ["EROFS"] * 5
    assert sandbox.run("mount -o remount,rw /data")[0] != 0


def test_setuid_files_and_devices_of_a_volume_are_dead(daemon, host):
    program = host / "shared" / "id"
    program.write_bytes(pathlib.Path("/usr/bin/id").read_bytes())
    program.chmod(0o4755)
    os.mknod(host / "shared" / "zero", 0o20666, os.makedev(1, 5))
    try:
        sandbox = daemon.create("suid", volumes=mount("host", host / "shared"), no_new_privileges=False)
        assert sandbox.output("setpriv --reuid 1000 --regid 1000 --clear-groups /data/id -u") == "1000"
        assert attack(sandbox, "report(opened('/data/zero'))") == "EACCES"
    finally:
        program.unlink()
        (host / "shared" / "zero").unlink()


def test_a_path_that_is_not_allowed_is_not_mounted(daemon, host):
    for path in ("/etc", "/", host, host / "secret", host / "shared-not", daemon.state, daemon.state / "images",
                 "/proc/1", "/proc/self/root/etc"):
        status, problem = daemon.refused(id="thief", volumes=mount("host", path))
        assert status == 400, (path, problem)
        assert problem["code"] == "VOLUME::HOST_PATH_NOT_ALLOWED"
        assert str(path) in problem["message"]
        assert daemon.traces("thief") == []


@pytest.mark.parametrize("path", ["relative", "/a/../b", "/a//b", "/a/", ""])
def test_host_paths_that_make_no_sense(daemon, path):
    status, problem = daemon.refused(id="odd", volumes=mount("host", path))
    assert (status, problem["code"]) == (400, "VOLUME::INVALID_HOST_PATH")


def test_a_link_does_not_lead_out_of_the_allowed_paths(daemon, host):
    door = host / "shared" / "door"
    for target in ("../secret", str(host / "secret"), "/etc", "/"):
        door.symlink_to(target)
        try:
            for path in (door, door / os.listdir(door)[0]):
                status, problem = daemon.refused(id="door", volumes=mount("host", path))
                assert (status, problem["code"]) == (400, "VOLUME::HOST_PATH_NOT_ALLOWED"), (path, problem)
            status, problem = daemon.refused(id="door", volumes=mount("host", host / "shared", sub_path="door"))
            assert (status, problem["code"]) == (400, "VOLUME::INVALID_SUB_PATH"), problem
        finally:
            door.unlink()
    assert daemon.traces("door") == []


def test_a_link_made_inside_leads_nowhere_on_the_host(daemon, host):
    sandbox = daemon.create("linker", volumes=mount("host", host / "shared"))
    sandbox.output(f"ln -s {host}/secret /data/trap; ln -s ../secret /data/trap2")
    try:
        assert sandbox.run("cat /data/trap/file")[0] != 0
        assert sandbox.run("cat /data/trap2/file")[0] != 0
        # The next sandbox asks for the link as a sub-path.
        for name in ("trap", "trap2"):
            status, problem = daemon.refused(id="next", volumes=mount("host", host / "shared", sub_path=name))
            assert status == 400, problem
    finally:
        (host / "shared" / "trap").unlink()
        (host / "shared" / "trap2").unlink()


@pytest.mark.parametrize("sub_path", ["..", "../secret", "a/../..", "/etc", "a/../../secret"])
def test_sub_paths_do_not_escape(daemon, host, sub_path):
    status, problem = daemon.refused(id="sub", volumes=mount("host", host / "shared", sub_path=sub_path))
    assert (status, problem["code"]) == (400, "VOLUME::INVALID_SUB_PATH"), problem
    daemon.client.put("/v1/volumes/data")
    status, problem = daemon.refused(id="sub", volumes=mount("named", "data", sub_path=sub_path, create=True))
    assert (status, problem["code"]) == (400, "VOLUME::INVALID_SUB_PATH"), problem


def test_a_missing_host_path(daemon, host):
    missing = host / "shared" / "not" / "there"
    status, problem = daemon.refused(id="missing", volumes=mount("host", missing))
    assert (status, problem["code"]) == (400, "VOLUME::HOST_PATH_NOT_FOUND")
    assert str(missing) in problem["message"]
    sandbox = daemon.create("made", volumes=mount("host", missing, create=True))
    sandbox.output("echo x > /data/file")
    assert (missing / "file").exists()
    status, problem = daemon.refused(id="outside", volumes=mount("host", host / "new", create=True))
    assert status == 400 and not (host / "new").exists()


def test_a_single_file_is_mounted(daemon, host):
    sandbox = daemon.create("file", volumes=mount("host", host / "shared" / "file", target="/etc/given"))
    assert sandbox.output("cat /etc/given") == "shared"


def test_a_named_volume_is_shared_and_stays(daemon):
    status, problem = daemon.refused(id="early", volumes=mount("named", "data"))
    assert (status, problem["code"]) == (404, "VOLUME::PVC_NOT_FOUND") and "data" in problem["message"]
    one = daemon.create("one", volumes=mount("named", "data", create=True))
    one.output("echo from one > /data/file; chown 1000:1000 /data/file")
    two = daemon.create("two", volumes=mount("named", "data", target="/elsewhere"))
    assert two.output("cat /elsewhere/file; stat -c %u:%g /elsewhere/file").splitlines() == ["from one", "1000:1000"]
    one.remove()
    two.remove()
    three = daemon.create("three", volumes=mount("named", "data", read_only=True))
    assert three.output("cat /data/file") == "from one"
    assert three.run("echo > /data/file")[0] != 0


def test_a_volume_in_use_is_not_deleted(daemon):
    assert daemon.client.put("/v1/volumes/busy").status_code == 201
    assert daemon.client.put("/v1/volumes/busy").status_code == 409
    sandbox = daemon.create("user", volumes=mount("named", "busy"))
    response = daemon.client.delete("/v1/volumes/busy")
    assert response.status_code == 409 and "busy" in response.json()["message"]
    sandbox.remove()
    assert daemon.client.delete("/v1/volumes/busy").status_code == 204
    assert daemon.client.delete("/v1/volumes/busy").status_code == 404


def test_a_volume_in_use_is_known_after_a_restart(daemon):
    sandbox = daemon.create("user", volumes=mount("named", "busy", create=True))
    daemon.kill()
    daemon.start()
    assert daemon.client.delete("/v1/volumes/busy").status_code == 409
    assert sandbox.output("echo kept > /data/file; cat /data/file") == "kept"


def test_a_volume_goes_with_the_sandbox_that_made_it(daemon):
    daemon.client.put("/v1/volumes/older")
    sandbox = daemon.create("owner", volumes=mount("named", "mine", create=True, delete_with_sandbox=True)
                            + mount("named", "older", target="/older", create=True, delete_with_sandbox=True))
    assert names(daemon) == ["mine", "older"]
    sandbox.remove()
    assert names(daemon) == ["older"]  # not made by that request


def test_a_failed_create_takes_its_new_volumes_back(daemon, host):
    status, _ = daemon.refused(id="failing", volumes=mount("named", "half", create=True)
                               + mount("host", host / "secret", target="/x"))
    assert status == 400
    assert names(daemon) == []


def test_names_of_volumes(daemon):
    for name in ("../etc", "a/b", "UPPER", "-a", "", ".tmp", "a" * 254):
        status, problem = daemon.refused(id="names", volumes=mount("named", name, create=True))
        assert (status, problem["code"]) == (400, "VOLUME::INVALID_PVC_NAME"), name
    assert daemon.client.put("/v1/volumes/..%2f..%2fetc").status_code in (400, 404)
    assert names(daemon) == []


@pytest.mark.parametrize("target", ["/", "relative", "/a/../b", "/a/", "/proc", "/proc/sys", "/sys/fs", "/dev/shm", ""])
def test_targets_that_make_no_sense(daemon, target):
    status, problem = daemon.refused(id="target", volumes=mount("tmpfs", target=target))
    assert (status, problem["code"]) == (400, "VOLUME::INVALID_MOUNT_PATH"), problem
    assert daemon.traces("target") == []


def test_one_target_takes_one_volume(daemon):
    status, problem = daemon.refused(id="twice", volumes=mount("tmpfs") + mount("tmpfs"))
    assert (status, problem["code"]) == (400, "VOLUME::INVALID_MOUNT_PATH") and "/data" in problem["message"]


def test_volumes_below_each_other(daemon):
    sandbox = daemon.create("nested", volumes=mount("tmpfs", target="/a/b") + mount("tmpfs", target="/a"))
    assert sandbox.output("grep -c ' /a' /proc/mounts") == "2"
    assert sandbox.output("touch /a/1 /a/b/2; ls /a /a/b").split() == ["/a:", "1", "b", "/a/b:", "2"]


def test_a_target_that_is_a_link_in_the_image_stays_inside(daemon, host):
    """The image (here: a snapshot of a sandbox) says /data is somewhere above its own root."""
    sandbox = daemon.create("setter")
    sandbox.output("mkdir /mnt/there; ln -s ../../../../../../mnt/there /data; ln -s /proc/1 /evil; "
                   "ln -s /none /broken")
    snapshot = "00000000-0000-4000-8000-00000000da7a"
    assert daemon.client.post("/v1/sandboxes/setter/snapshots", json={"id": snapshot}).status_code == 201
    try:
        follower = daemon.create("follower", image="", snapshot=snapshot,
                                 volumes=mount("host", host / "shared", read_only=True))
        assert follower.output("cat /mnt/there/file") == "shared"
        follower.remove()
        for target in ("/evil/cwd", "/broken"):
            status, problem = daemon.refused(id="follower", image="", snapshot=snapshot,
                                             volumes=mount("host", host / "shared", target=target))
            assert (status, problem["code"]) == (500, "NATIVE::SANDBOX_START_FAILED"), problem
            assert target in problem["message"]
            assert daemon.traces("follower") == []
    finally:
        assert daemon.client.delete(f"/v1/snapshots/{snapshot}").status_code == 204


def test_strangers_ids(make_daemon, host):
    """host_ids = foreign: what a sandbox leaves on the host belongs to its own range."""
    daemon = make_daemon(settings={
        "sandbox": {"allowed_host_paths": [str(host / "shared")], "host_ids": "foreign"},
        "network": {"subnet": "10.91.0.0/24", "table": "osb-foreign", "interface_prefix": "osbf-"}})
    drop = host / "shared" / "drop"
    drop.mkdir()
    drop.chmod(0o1777)
    owners = []
    for name in ("one", "two"):
        sandbox = daemon.create(name, volumes=mount("host", host / "shared"))
        assert sandbox.run("echo > /data/file")[0] != 0  # root's on the host
        sandbox.output(f"echo x > /data/drop/{name}; chmod 600 /data/drop/{name}")
        base = int(sandbox.output("cat /proc/self/uid_map").split()[1])
        assert (drop / name).stat().st_uid == base
        owners.append(base)
    assert len(set(owners)) == 2
    assert sandbox.run("cat /data/drop/one")[0] != 0
