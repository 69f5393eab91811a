"""Files of the host and of other sandboxes, sought from inside."""

import os
import pathlib
import tempfile

import pytest

from attack import attack

pytestmark = pytest.mark.wall("Files of the host", second="ids that own nothing outside")


@pytest.fixture
def secret():
    """A file of the host that every user may read there: only the sandbox hides it."""
    with tempfile.TemporaryDirectory(prefix="osb-secret-", dir="/var/tmp") as directory:
        os.chmod(directory, 0o755)
        path = pathlib.Path(directory) / "secret"
        path.write_text("of the host")
        path.chmod(0o644)
        yield str(path)


def test_a_file_of_the_host_is_not_there(prison, secret):
    assert set(attack(prison.create(), """
roots = ['', '/proc/self/root', '/proc/thread-self/root', '/proc/self/cwd', '/proc/1/root', '/proc/1/cwd',
         '/proc/self/root' + '/..' * 20, '/dev/fd/0', *[f'/proc/{p}/root' for p in os.listdir('/proc') if p.isdigit()]]
os.symlink('/proc/1/root' + secret, '/tmp/link')
report(sorted({opened(root + secret) for root in roots} | {opened('/tmp/link')}))
""", secret=secret)) <= {"EACCES", "ENOENT", "ENOTDIR"}


@pytest.mark.attack(on="native")
def test_no_descriptor_leads_out(prison):
    """Commands and the entrypoint inherit nothing of execd's or sandboxd's."""
    sandbox = prison.create(entrypoint=["sh", "-c", "ls -l /proc/self/fd; exec sleep 1000"])
    expected = ("pipe:", "/dev/null", "/proc/")
    of_entrypoint = prison.daemon.said(sandbox.id, lambda text: text.count("\n") >= 5)
    for listing in (sandbox.output("ls -l /proc/self/fd"), of_entrypoint):
        targets = [line.split(" -> ")[1] for line in listing.splitlines() if " -> " in line]
        assert len(targets) >= 3
        assert all(target.startswith(expected) for target in targets), listing
    #  The entrypoint writes into a pipe, so it cannot reach its log through its output.
    assert attack(sandbox, """
entrypoint = next(p for p in os.listdir('/proc')
                  if p.isdigit() and open(f'/proc/{p}/cmdline', 'rb').read().startswith(b'sleep'))
report(sorted({opened(f'/proc/{entrypoint}/fd/{fd}/../{name}') for fd in range(3) for name in ('record.json', 'run')}))
""") == ["ENOTDIR"]


@pytest.mark.attack(by="a caller of execd", on="native")
def test_no_command_begins_where_a_descriptor_of_execd_leads(prison):
    """One of them is the directory with the sandbox's logs, which sandboxd reads."""
    sandbox = prison.create()
    sandbox.output("ln -s /proc/self/fd/4 /tmp/disguised; mkdir /tmp/real; ln -s real /tmp/link")
    command = "rm -f *.log; mkfifo entrypoint.log execd.log"
    session = sandbox.execd("/session", {}).json()["session_id"]
    for cwd in ("/proc/self/fd/4", "/proc/1/fd/4", "/proc/thread-self/fd/4", "/tmp/disguised"):
        for path, body in (("/command", {"command": command}), ("/session", {}), ("/pty", {}),
                           (f"/session/{session}/run", {"command": command})):
            answer = sandbox.execd(path, {**body, "cwd": cwd})
            assert answer.status_code == 400, f"{path} in {cwd}: {answer.status_code} {answer.text}"
            assert "a link of /proc" in answer.json()["message"]
    assert {path.name: path.is_file() for path in (prison.daemon.state / "sandboxes" / sandbox.id / "run").iterdir()} == {
        "entrypoint.log": True, "execd.log": True}
    assert sandbox.output("pwd -P", cwd="/tmp/link") == "/tmp/real"


def test_leaving_a_chroot_ends_at_the_sandboxs_own_root(prison, secret):
    sandbox = prison.create()
    sandbox.output("echo mine > /marker")
    assert attack(sandbox, """
def escape():
    os.mkdir('/tmp/cell')
    outside = os.open('/', os.O_RDONLY)
    os.chroot('/tmp/cell')
    os.fchdir(outside)
    for _ in range(50):
        os.chdir('..')
    os.chroot('.')
    return [opened('/marker'), opened(secret)]
report(in_child(escape))
""", secret=secret) == ["opened", "ENOENT"]


@pytest.mark.attack(by="another sandbox")
def test_files_of_another_sandbox_are_not_there(prison):
    owner = prison.create()
    paths = ["/tmp/other", "/dev/shm/other", "/usr/lib/other"]
    owner.output(f"for path in {' '.join(paths)}; do echo theirs > $path; done")
    thief = prison.create()
    inside = [f"{prison.daemon.directory}/state/sandboxes/{owner.id}/upper/tmp/other"]
    assert attack(thief, "report([opened(path) for path in paths])", paths=paths + inside) == ["ENOENT"] * 4
    assert owner.output("cat " + " ".join(paths)).split() == ["theirs"] * 3


@pytest.mark.attack(on="native gvisor")
def test_changes_to_usr_do_not_reach_the_host(prison):
    sandbox = prison.create()
    before = os.stat("/usr/bin/env")
    sandbox.output("echo broken > /usr/bin/env; rm /usr/bin/true; touch /usr/bin/osb-new; chmod 777 /usr")
    after = os.stat("/usr/bin/env")
    assert (before.st_size, before.st_mtime_ns, before.st_ino) == (after.st_size, after.st_mtime_ns, after.st_ino)
    assert os.path.exists("/usr/bin/true") and not os.path.exists("/usr/bin/osb-new")
    assert os.stat("/usr").st_mode & 0o022 == 0


@pytest.mark.attack(on="native")
def test_changes_to_the_package_database_do_not_reach_the_host(prison):
    """Its files are shared with the host's on disk, below the private layer."""
    sandbox = prison.create()
    files = ["/var/lib/dpkg/status", "/var/lib/dpkg/info/dpkg.list", "/var/lib/dpkg/info/dpkg.postinst"]

    def look(name):
        with open(name, "rb") as file:
            info = os.fstat(file.fileno())
            return file.read(), info.st_ino, info.st_mode, info.st_uid, info.st_mtime_ns

    before = {name: look(name) for name in files}
    for name in files:
        sandbox.output(f"echo broken >> {name}; truncate -s 5 {name}; chmod 4777 {name}; chown sandbox {name}")
        sandbox.output(f"ln {name} /tmp/link && echo broken > /tmp/link && rm /tmp/link {name}")
    assert {name: look(name) for name in files} == before


@pytest.mark.attack(on="native")
def test_the_hosts_private_directories_are_not_shown(prison):
    sandbox = prison.create()
    for directory in ("/srv", "/opt", "/mnt", "/media"):
        assert sandbox.output(f"find {directory} -mindepth 1") == "", directory
    assert sandbox.output("find /root -mindepth 1; cat /root/.bashrc") == "/root/.bashrc\n. /etc/bash.bashrc"
    # Packages of the host's /usr are known, nothing else of /var.
    listing = sandbox.output("find /etc /home /var /run -path /var/lib/dpkg -prune -o -type f -print").split()
    for name in ("/etc/gshadow", "/etc/machine-id", "/etc/fstab"):
        assert name not in listing
    assert not [name for name in listing if "/ssh" in name or name.startswith(("/var/", "/run/"))]
    assert set(sandbox.output("cut -d : -f 2 /etc/shadow").split()) == {"*"}, "no user has a password"
    #  The users are made up: a sandbox does not see those of the host.
    users = sandbox.output("cut -d : -f 1 /etc/passwd").split()
    assert "root" in users and "nobody" in users
    assert sandbox.output("cut -d : -f 2 /etc/passwd | sort -u") in ("x", "*")


@pytest.mark.attack(by="a local user of the host", on="native")
def test_files_of_a_sandbox_lie_where_only_root_gets(prison):
    """Ids on disk are those inside, also of setuid files: no other user of the host may enter the directory."""
    sandbox = prison.create()
    sandbox.output("cp /usr/bin/id /root/id; chmod 4755 /root/id")
    state = prison.daemon.state
    kept = state / "sandboxes" / sandbox.id / "upper" / "root" / "id"
    assert kept.stat().st_uid == 0 and kept.stat().st_mode & 0o4000
    assert state.stat().st_mode & 0o777 == 0o700

    def open_as_stranger():
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        os.close(os.open(kept, os.O_RDONLY))

    assert fails_in_child(open_as_stranger)


@pytest.mark.attack(by="another sandbox", on="native docker")
def test_files_of_a_removed_sandbox_are_not_seen_by_the_next(prison):
    first = prison.create()
    first.output("echo secret > /root/left; echo secret > /dev/shm/left")
    first.remove()
    for i in range(10 if prison.kind == "native" else 2):  # as many as there are ready slots, and one that is used again
        again = prison.create()
        assert again.output("ls /root /dev/shm").split() == ["/dev/shm:", "/root:"], i
        again.remove()


@pytest.mark.attack(on="native")
def test_links_made_inside_do_not_mislead_the_daemon(prison, secret):
    """sandboxd opens files in the sandbox's directories as root: they must never be what the sandbox points at."""
    daemon = prison.daemon
    sandbox = prison.create(entrypoint=["sh", "-c", "echo output; exec sleep 1000"])
    sandbox.output(f"rm -rf /srv; ln -s {os.path.dirname(secret)} /srv; ln -s {secret} /root/link")
    stats = daemon.client.get(f"/v1/sandboxes/{sandbox.id}/stats")
    assert stats.status_code == 200
    assert daemon.said(sandbox.id, lambda text: text.endswith("\n")) == "output\n"
    assert daemon.client.get(f"/v1/sandboxes/{sandbox.id}/logs").text == "output\n"
    sandbox.remove()
    assert pathlib.Path(secret).read_text() == "of the host"


def fails_in_child(action):
    child = os.fork()
    if child == 0:
        try:
            action()
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
