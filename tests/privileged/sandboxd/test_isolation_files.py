"""Files of the host and of other sandboxes, sought from inside."""

import os
import pathlib
import tempfile

import pytest

from attack import attack


@pytest.fixture
def secret():
    """A file of the host that every user may read there: only the sandbox hides it."""
    with tempfile.TemporaryDirectory(prefix="osb-secret-", dir="/var/tmp") as directory:
        os.chmod(directory, 0o755)
        path = pathlib.Path(directory) / "secret"
        path.write_text("of the host")
        path.chmod(0o644)
        yield str(path)


def test_the_hosts_files_are_not_there(daemon, secret):
    sandbox = daemon.create("prisoner")
    assert attack(sandbox, """
roots = ['', '/proc/self/root', '/proc/thread-self/root', '/proc/self/cwd', '/proc/1/root', '/proc/1/cwd',
         '/proc/self/root' + '/..' * 20, '/dev/fd/0', *[f'/proc/{p}/root' for p in os.listdir('/proc') if p.isdigit()]]
os.symlink('/proc/1/root' + secret, '/tmp/link')
report(sorted({opened(root + secret) for root in roots} | {opened('/tmp/link')}))
""", secret=secret) == ["EACCES", "ENOENT", "ENOTDIR"]


def test_no_descriptor_leads_out(daemon, secret):
    """Commands and the entrypoint inherit nothing of execd's or sandboxd's."""
    sandbox = daemon.create("prisoner", entrypoint=["sh", "-c", "ls -l /proc/self/fd; exec sleep 1000"])
    expected = ("pipe:", "/dev/null", "/proc/")
    for listing in (sandbox.output("ls -l /proc/self/fd"), daemon.said("prisoner", lambda text: text.count("\n") >= 5)):
        targets = [line.split(" -> ")[1] for line in listing.splitlines() if " -> " in line]
        assert len(targets) >= 3
        assert all(target.startswith(expected) for target in targets), listing
    #  The entrypoint writes into a pipe, so it cannot reach its log through its output.
    assert attack(sandbox, """
entrypoint = next(p for p in os.listdir('/proc')
                  if p.isdigit() and open(f'/proc/{p}/cmdline', 'rb').read().startswith(b'sleep'))
report(sorted({opened(f'/proc/{entrypoint}/fd/{fd}/../{name}') for fd in range(3) for name in ('record.json', 'run')}))
""") == ["ENOTDIR"]


def test_no_command_begins_where_a_descriptor_of_execd_leads(daemon):
    """One of them is the directory with the sandbox's logs, which sandboxd reads."""
    sandbox = daemon.create("prisoner")
    sandbox.output("ln -s /proc/self/fd/4 /tmp/disguised; mkdir /tmp/real; ln -s real /tmp/link")
    command = "rm -f *.log; mkfifo entrypoint.log execd.log"
    session = sandbox.execd.post("/session", json={}).json()["session_id"]
    for cwd in ("/proc/self/fd/4", "/proc/1/fd/4", "/proc/thread-self/fd/4", "/tmp/disguised"):
        for path, body in (("/command", {"command": command}), ("/session", {}), ("/pty", {}),
                           (f"/session/{session}/run", {"command": command})):
            answer = sandbox.execd.post(path, json={**body, "cwd": cwd})
            assert answer.status_code == 400, f"{path} in {cwd}: {answer.status_code} {answer.text}"
            assert "a link of /proc" in answer.json()["message"]
    assert {path.name: path.is_file() for path in (daemon.state / "sandboxes" / "prisoner" / "run").iterdir()} == {
        "entrypoint.log": True, "execd.log": True}
    assert sandbox.output("pwd -P", cwd="/tmp/link") == "/tmp/real"


def test_leaving_a_chroot_ends_at_the_sandboxs_own_root(daemon, secret):
    sandbox = daemon.create("prisoner")
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


def test_another_sandboxs_files_are_not_there(daemon):
    owner = daemon.create("owner")
    owner.output("echo theirs > /srv/other; echo theirs > /dev/shm/other; echo theirs > /usr/share/other")
    thief = daemon.create("thief")
    paths = ["/srv/other", "/dev/shm/other", "/usr/share/other",
             str(daemon.state / "sandboxes" / "owner" / "upper" / "srv" / "other")]
    assert attack(thief, "report([opened(path) for path in paths])", paths=paths) == ["ENOENT"] * 4
    assert owner.output("cat /srv/other /dev/shm/other /usr/share/other").split() == ["theirs"] * 3


def test_changes_to_usr_do_not_reach_the_host(daemon):
    sandbox = daemon.create("prisoner")
    before = os.stat("/usr/bin/env")
    sandbox.output("echo broken > /usr/bin/env; rm /usr/bin/true; touch /usr/bin/osb-new; chmod 777 /usr")
    after = os.stat("/usr/bin/env")
    assert (before.st_size, before.st_mtime_ns, before.st_ino) == (after.st_size, after.st_mtime_ns, after.st_ino)
    assert os.path.exists("/usr/bin/true") and not os.path.exists("/usr/bin/osb-new")
    assert os.stat("/usr").st_mode & 0o022 == 0


def test_changes_to_the_package_database_do_not_reach_the_host(daemon):
    """Its files are shared with the host's on disk, below the private layer."""
    sandbox = daemon.create("prisoner")
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


def test_the_hosts_private_directories_are_not_shown(daemon):
    sandbox = daemon.create("prisoner")
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


def test_files_of_a_sandbox_lie_where_only_root_gets(daemon):
    """Ids on disk are those inside, also of setuid files: no other user of the host may enter the directory."""
    sandbox = daemon.create("prisoner")
    sandbox.output("cp /usr/bin/id /root/id; chmod 4755 /root/id")
    kept = daemon.state / "sandboxes" / "prisoner" / "upper" / "root" / "id"
    assert kept.stat().st_uid == 0 and kept.stat().st_mode & 0o4000
    assert daemon.state.stat().st_mode & 0o777 == 0o700

    def open_as_stranger():
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        os.close(os.open(kept, os.O_RDONLY))

    assert fails_in_child(open_as_stranger)


def test_a_removed_sandboxs_files_are_not_seen_by_the_next(daemon):
    first = daemon.create("first")
    first.output("echo secret > /root/left; echo secret > /dev/shm/left")
    first.remove()
    for i in range(10):  # as many as there are ready slots, and one that is used again
        again = daemon.create("first")
        assert again.output("ls /root /dev/shm").split() == ["/dev/shm:", "/root:"], i
        again.remove()


def test_links_made_inside_do_not_mislead_the_daemon(daemon, secret):
    """sandboxd opens files in the sandbox's directories as root: they must never be what the sandbox points at."""
    sandbox = daemon.create("prisoner", entrypoint=["sh", "-c", "echo output; exec sleep 1000"])
    sandbox.output(f"rm -rf /srv; ln -s {os.path.dirname(secret)} /srv; ln -s {secret} /root/link")
    stats = daemon.client.get("/v1/sandboxes/prisoner/stats")
    assert stats.status_code == 200
    assert daemon.said("prisoner", lambda text: text.endswith("\n")) == "output\n"
    assert daemon.client.get("/v1/sandboxes/prisoner/logs").text == "output\n"
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
