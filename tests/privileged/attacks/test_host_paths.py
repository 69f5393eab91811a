"""Directories of the host that a sandbox may write to: what it leaves there gives nobody on the host more rights."""

import os
import pathlib
import shutil
import struct
import subprocess
import tempfile

import pytest

from attack import attack

pytestmark = pytest.mark.wall("Directories of the host", second="nosuid and nodev mounts, ids that are nobody on the host")

RUNTIME = {"runtime": "runsc"} if os.environ.get("BACKEND") == "gvisor" else {}
ALICE, BOB = 54_321, 54_322
LAST_USER = 65_535


@pytest.fixture
def base():
    """Every user of the host can come here."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="osb-host-paths-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


def make(path, owner, mode):
    path.mkdir()
    os.chown(path, owner, owner)
    path.chmod(mode)
    return path


def as_user(user, *command):
    """The output of a command that a user of the host runs."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, user=user, group=user, extra_groups=[])
    return done.stdout.strip() if done.returncode == 0 else f"failed: {done.stderr.strip()}"


def sandbox_with(make_daemon, path, settings=None, **fields):
    daemon = make_daemon(settings={"sandbox": {"allowed_host_paths": [str(path)], **(settings or {})}})
    return daemon.create("attacker", volumes=[{"kind": "host", "source": str(path), "target": "/data", **fields}], **RUNTIME)


@pytest.mark.attack(by="code in the sandbox and a user of the host", on="native gvisor")
@pytest.mark.parametrize("owner, mode", [(0, 0o777), (0, 0o1777), (ALICE, 0o777)])
def test_a_setuid_program_left_by_a_sandbox_gives_no_rights_on_the_host(make_daemon, base, owner, mode):
    path = make(base / "open", owner, mode)
    control = path / "control"
    shutil.copy("/usr/bin/id", control)
    control.chmod(0o4755)
    assert as_user(BOB, control, "-u") == "0", "setuid programs work here"
    sandbox = sandbox_with(make_daemon, path)
    sandbox.output("cp /usr/bin/id /data/id; chmod 6755 /data/id")
    sandbox.remove()  # gVisor keeps files open for writing
    left = (path / "id").stat()
    assert left.st_mode & 0o6000 == 0o6000
    assert left.st_uid > LAST_USER and left.st_gid > LAST_USER
    assert int(as_user(BOB, path / "id", "-u")) == left.st_uid, "the rights of an id that has none"


@pytest.mark.attack(by="code in the sandbox and a user of the host", on="native gvisor")
def test_a_sandbox_cannot_open_its_own_closed_directory_to_others(make_daemon, base):
    """The directory itself is closed to all but root: root inside could change that, so root inside is not its owner."""
    path = make(base / "closed", 0, 0o700)
    sandbox = sandbox_with(make_daemon, path)
    got = attack(sandbox, """
report([attempt(os.chmod, '/data', 0o777), attempt(os.mkdir, '/data/x'), attempt(os.chown, '/data', 0, 0)])
""")
    assert RUNTIME or got == ["EPERM", "EACCES", "EPERM"], "gVisor says yes and changes nothing"
    assert path.stat().st_mode & 0o777 == 0o700 and not list(path.iterdir())


@pytest.mark.attack(by="code in the sandbox and a user of the host", on="native gvisor")
def test_files_of_a_user_are_given_to_no_other_user(make_daemon, base):
    """In a directory that only its owner can reach, root inside is the owner: others never come to what it leaves."""
    project = make(make(base / "home", ALICE, 0o700) / "project", ALICE, 0o755)
    sandbox = sandbox_with(make_daemon, project)
    sandbox.output("cp /usr/bin/id /data/id; chmod 6755 /data/id; echo text > /data/file")
    sandbox.remove()
    assert (project / "file").stat().st_uid == ALICE, "usable by its owner"
    assert as_user(ALICE, project / "id", "-u") == str(ALICE)
    assert (project / "id").stat().st_gid > LAST_USER, "no group of the host, which its owner may not be in"
    with pytest.raises(PermissionError):
        as_user(BOB, project / "id", "-u")


@pytest.mark.attack(by="code in the sandbox and a user of the host", on="native")
@pytest.mark.parametrize("opened", ["mode", "group", "list of rights"])
def test_a_home_that_others_can_pass_counts_as_open(make_daemon, base, opened):
    home = make(base / "home", ALICE, {"mode": 0o701, "group": 0o710, "list of rights": 0o700}[opened])
    project = make(home / "project", ALICE, 0o777)
    if opened == "list of rights":
        entries = [(1, 7, -1), (2, 1, BOB), (4, 0, -1), (16, 1, -1), (32, 0, -1)]  # user, BOB, group, mask, others
        text = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
        os.setxattr(home, "system.posix_acl_access", text)
        assert as_user(BOB, "/bin/ls", project) == "", "the list lets him pass"
    sandbox = sandbox_with(make_daemon, project)
    sandbox.output("cp /usr/bin/id /data/id; chmod 6755 /data/id")
    assert (project / "id").stat().st_uid > LAST_USER


@pytest.mark.attack(by="code in the sandbox and a user of the host", on="native")
def test_a_sandbox_gives_a_file_to_no_user_of_the_host(make_daemon, base):
    path = make(base / "open", 0, 0o777)
    sandbox = sandbox_with(make_daemon, path)
    done = attack(sandbox, """
out = []
for user in (0, 1, 33, 1000, 65534, 65535):
    open(f'/data/{user}', 'w').close()
    out.append(attempt(os.chown, f'/data/{user}', user, user))
out.append(attempt(os.chown, '/data/0', 70000, 0))
report(out)
""")
    assert done == [None] * 6 + ["EINVAL"]
    assert all(each.stat().st_uid > LAST_USER and each.stat().st_gid > LAST_USER for each in path.iterdir())
    assert len({each.stat().st_uid for each in path.iterdir()}) == 6


@pytest.mark.attack(by="code in the sandbox and a user of the host", on="native")
def test_capabilities_of_a_file_count_nothing_on_the_host(make_daemon, base):
    path = make(base / "open", 0, 0o777)
    sandbox = sandbox_with(make_daemon, path)
    everything = struct.pack("<IIIII", 0x02000001, 0xFFFFFFFF, 0, 0xFFFFFFFF, 0).hex()
    sandbox.output("cp /usr/bin/cat /data/cat")
    assert attack(sandbox, "report(attempt(os.setxattr, '/data/cat', 'security.capability', bytes.fromhex(everything)))",
                  everything=everything) is None
    status = as_user(BOB, path / "cat", "/proc/self/status")
    assert "CapEff:\t0000000000000000" in status, status


@pytest.mark.attack(on="native gvisor")
def test_files_that_only_root_may_change_stay_root_s(make_daemon, base):
    path = make(base / "open", 0, 0o777)
    secret, shown = path / "secret", path / "shown"
    secret.write_text("secret")
    secret.chmod(0o600)
    shown.write_text("shown")
    sandbox = sandbox_with(make_daemon, path)
    assert attack(sandbox, """
report([opened('/data/shown'), opened('/data/secret'), opened('/data/shown', os.O_WRONLY),
        attempt(os.chown, '/data/shown', 0, 0), attempt(os.chmod, '/data/shown', 0o777)])
""")[:3] == ["opened", "EACCES", "EACCES"]
    assert shown.stat().st_uid == 0 and shown.stat().st_mode & 0o777 == 0o644


@pytest.mark.attack(on="native")
def test_programs_and_devices_in_a_directory_of_the_host_give_no_rights_inside(make_daemon, base):
    path = make(base / "open", 0, 0o755)
    shutil.copy("/usr/bin/id", path / "id")
    (path / "id").chmod(0o4755)
    os.mknod(path / "zero", 0o20666, os.makedev(1, 5))
    daemon = make_daemon(settings={"sandbox": {"allowed_host_paths": [str(path)]}})
    sandbox = daemon.create("attacker", no_new_privileges=False,
                            volumes=[{"kind": "host", "source": str(path), "target": "/data"}])
    assert sandbox.output("setpriv --reuid 1000 --regid 1000 --clear-groups /data/id -u") == "1000"
    assert attack(sandbox, "report([opened('/data/zero'), opened('/dev/zero'), attempt(os.mknod, '/data/made', 0o20666, 261)])"
                  ) in (["EACCES", "opened", "EPERM"], ["EACCES", "opened", "EACCES"])


@pytest.mark.attack(by="a client of the API", on="native")
@pytest.mark.parametrize("home_owner, home_mode", [(0, 0o755), (0, 0o711), (ALICE, 0o700)])
def test_same_ids_are_refused_where_users_can_go(make_daemon, base, home_owner, home_mode):
    path = make(make(base / "home", home_owner, home_mode) / "path", 0, 0o700)
    daemon = make_daemon(settings={"sandbox": {"allowed_host_paths": [str(path)], "host_ids": "same"}})
    volume = {"kind": "host", "source": str(path), "target": "/data"}
    status, problem = daemon.refused(id="attacker", volumes=[volume])
    assert (status, problem["code"]) == (400, "VOLUME::HOST_PATH_NOT_ALLOWED")
    assert str(path) in problem["message"] and "host_ids" in problem["message"]
    assert daemon.traces("attacker") == []
    reader = daemon.create("reader", volumes=[{**volume, "read_only": True}])
    assert attack(reader, "report(attempt(os.mkdir, '/data/x'))") == "EROFS"
    os.chown(base / "home", 0, 0)
    (base / "home").chmod(0o700)
    writer = daemon.create("writer", volumes=[volume])
    writer.output("echo > /data/file")
    assert (path / "file").stat().st_uid == 0
