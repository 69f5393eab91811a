"""Processes of the host, of other sandboxes and execd itself, seen from inside."""

import os
import pathlib
import signal
import subprocess

import pytest

from attack import attack, number_of


pytestmark = pytest.mark.wall("Processes of others", second="ids of its own")


@pytest.fixture
def bystander():
    """A process of the host."""
    running = subprocess.Popen(["sleep", "1000"])
    yield running
    assert running.poll() is None, "the sandbox ended a process of the host"
    running.kill()
    running.wait()


def pid_of(prisoner):
    """Of its execd, on the host."""
    return prisoner.prison.daemon.client.get(f"/v1/sandboxes/{prisoner.id}").json()["pid"]


@pytest.mark.attack(by="another sandbox")
def test_processes_of_others_are_not_seen(prison):
    prisoner = prison.create(entrypoint=["sleep", "54321"])
    other = prison.create(entrypoint=["sleep", "12345"])
    seen = prisoner.output("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert "sleep 54321" in seen
    assert "12345" not in seen and "sandboxd" not in seen and "pytest" not in seen and "dockerd" not in seen
    assert "sleep 12345" in other.output("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")


def test_processes_that_it_cannot_see_get_no_signal(prison, bystander):
    got = attack(prison.create(), """
own = {int(name) for name in os.listdir('/proc') if name.isdigit()}
others = set(pids) | set(range(2, 4000))
# Threads of its own processes have numbers too; they can be looked at, but are not listed.
tried = {pid: attempt(os.kill, pid, signal.SIGKILL) for pid in others - own if not os.path.exists(f'/proc/{pid}')}
report(sorted({got for pid, got in tried.items() if got is not None or not os.path.exists(f'/proc/{pid}')}, key=str))
""", pids=[bystander.pid, prison.daemon.pid, os.getpid()])
    assert got == ["ESRCH"]


@pytest.mark.attack(on="native")
def test_execd_survives_signals_of_root_inside(prison):
    """Four signals ask it to end, as they ask every PID 1; no other does, and none stops it. Two it hands on to the
    entrypoint."""
    sandbox = prison.create(entrypoint=["sh", "-c", "trap : USR1 USR2; while :; do sleep 1000 & wait; done"])
    assert attack(sandbox, """
asking = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}
report([attempt(os.kill, 1, number) for number in set(signal.Signals) - asking])
""") == [None] * (len(signal.Signals) - 4)
    assert sandbox.output("echo still here") == "still here"


@pytest.mark.attack(on="native")
def test_execd_cannot_be_looked_into(prisoner):
    got = attack(prisoner, f"""
def read(name):
    with open(f'/proc/1/{{name}}', 'rb') as file:
        return len(file.read(1))
report({{**{{name: attempt(read, name) for name in ('environ', 'mem', 'maps', 'auxv', 'stack', 'syscall', 'pagemap')}},
        **{{name: attempt(os.readlink, f'/proc/1/{{name}}')
           for name in ('root', 'cwd', 'exe', 'fd/3', 'ns/user', 'ns/mnt')}},
        'root/etc/passwd': opened('/proc/1/root/etc/passwd'), 'exe opened': opened('/proc/1/exe'),
        'ptrace attach': syscall({number_of("ptrace")}, 16, 1, 0, 0),
        'ptrace seize': syscall({number_of("ptrace")}, 0x4206, 1, 0, 0),
        'mem for writing': opened('/proc/1/mem', os.O_RDWR)}})
""")
    assert set(got.values()) <= {"EACCES", "EPERM"}, got


@pytest.mark.attack(on="native")
def test_memory_and_descriptors_of_execd_cannot_be_taken(prisoner):
    got = attack(prisoner, """
pidfd = os.pidfd_open(1)
target = ctypes.create_string_buffer(64)
class Vector(ctypes.Structure):
    _fields_ = [('base', ctypes.c_void_p), ('length', ctypes.c_size_t)]
local, remote = Vector(ctypes.addressof(target), 64), Vector(0x400000, 64)
report([syscall(getfd, pidfd, 3, 0), syscall(readv, 1, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0),
        syscall(writev, 1, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)])
""", getfd=number_of("pidfd_getfd"), readv=number_of("process_vm_readv"), writev=number_of("process_vm_writev"))
    assert got == ["EPERM"] * 3


@pytest.mark.attack(on="native docker")
def test_a_debugger_of_its_own_processes_works(prisoner):
    """The refusals of the tests above concern execd only."""
    assert attack(prisoner, f"""
child = os.fork()
if child == 0:
    signal.pause()
attached = syscall({number_of("ptrace")}, 16, child, 0, 0)
os.waitpid(child, 0)
os.kill(child, signal.SIGKILL)
report(attached)
""") == 0


@pytest.mark.attack(on="native gvisor")
def test_the_token_is_nowhere_to_be_found(prison):
    """On Docker the container's first process keeps it in its environment, which root inside can read."""
    prisoner = prison.create(entrypoint=["sh", "-c", "env; exec sleep 1000"])
    token = prisoner.token
    assert len(token) >= 32
    seen = prisoner.output("env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'; true")
    assert "PATH=" in seen and token not in seen
    assert token not in prison.daemon.log() and token not in prison.server.log()
    if prison.kind == "native":
        log = prison.daemon.said(prisoner.id, lambda text: "PATH=" in text)
        assert token not in log and "ACCESS_TOKEN" not in log
        # Nor to another user of the host: all that holds it is root's.
        assert (prison.daemon.state.stat().st_mode & 0o077) == 0


@pytest.mark.attack(on="native")
def test_every_process_has_ids_of_its_own_sandbox(prison):
    ranges = []
    for _ in range(2):
        sandbox = prison.create(entrypoint=["sleep", "1000"])
        status = pathlib.Path(f"/proc/{pid_of(sandbox)}/status").read_text()
        ids = {int(word) for line in status.splitlines() if line.startswith(("Uid:", "Gid:"))
               for word in line.split()[1:]}
        base, count = (int(word) for word in sandbox.output("cat /proc/self/uid_map").split()[1:])
        assert count == 65536 and ids == {base}
        assert base >= 65536
        assert sandbox.output("cat /proc/self/gid_map").split() == ["0", str(base), "65536"]
        assert sandbox.run("python3 -c 'import os; os.setuid(65536)'")[0] != 0
        ranges.append(base)
    assert abs(ranges[0] - ranges[1]) >= 65536


@pytest.mark.parametrize("kind", ["mnt", "pid", "net", "ipc", "uts", "user", "cgroup"])
@pytest.mark.attack(on="native")
def test_no_namespace_is_shared(prison, kind):
    sandboxes = prison.shared(), prison.shared("neighbour")
    assert len({os.readlink(f"/proc/{pid}/ns/{kind}") for pid in ("self", *map(pid_of, sandboxes))}) == 3


def test_setuid_programs_gain_nothing(prison):
    assert prison.create().output(
        "cp $(python3 -c 'import sys; print(sys.executable)') /tmp/gain; chmod 4755 /tmp/gain; "
        "python3 -c 'import os; os.setgid(1000); os.setuid(1000); "
        "os.execv(\"/tmp/gain\", [\"gain\", \"-c\", \"import os; print(os.geteuid())\"])'") == "1000"


@pytest.mark.attack(on="native")
def test_the_option_for_setuid_programs_gives_no_more_than_root_inside_has(make_daemon):
    daemon = make_daemon()
    asked = ("cp /usr/bin/id /opt/id; chmod 4755 /opt/id; cd /opt; "
             "setpriv --reuid 1000 --regid 1000 --clear-groups /opt/id -u")
    able = daemon.create("able", no_new_privileges=False)
    assert able.output(asked) == "0"
    assert able.output("grep -E 'NoNewPrivs|CapBnd' /proc/self/status").split() == [
        "CapBnd:", daemon.create("plain").output("grep CapBnd /proc/self/status").split()[1], "NoNewPrivs:", "0"]


@pytest.mark.attack(on="native")
def test_nested_user_namespaces_are_off_by_default(prisoner):
    code, text = prisoner.run("unshare --user true")
    assert code != 0 and "Operation not permitted" in text
    assert prisoner.output("cat /proc/sys/user/max_user_namespaces") == "0"


@pytest.mark.parametrize("inside", [
    "ip addr add 10.90.0.99/32 dev eth0", "ip link set eth0 down", "umount /proc/sys", "mount -o remount,rw,bind /proc/sys",
    "mount -o remount,rw /sys", "mount -t cgroup2 none /mnt", "sh -c 'echo 1 > /proc/sys/kernel/hostname'",
    "nsenter --target 1 --mount true", "hostname stolen", "mknod /tmp/disk b 8 0"])
@pytest.mark.attack(on="native")
def test_a_nested_user_namespace_gives_no_power_over_the_sandbox(make_daemon, inside):
    nested = make_daemon().create("nested", nested_user_namespaces=True)
    assert nested.output("unshare --user --map-root-user id -u") == "0"
    assert nested.output("unshare --user --map-root-user --mount sh -c 'mount -t tmpfs x /mnt && echo mounted'") == (
        "mounted")
    address = nested.output("ip -4 -o addr show eth0")
    code, text = nested.run(f"unshare --user --map-root-user --mount {inside}")
    assert code != 0, text
    assert nested.output("ip -4 -o addr show eth0") == address
    assert nested.output("hostname") == "nested"


@pytest.mark.attack(by="another sandbox", on="native docker")
def test_messages_and_shared_memory_stay_inside(prison):
    """SysV segments by their key, POSIX queues by their name."""
    ask = """
libc.shmget.restype = ctypes.c_int
report([libc.shmget(0x1234, 4096, flags | 0o666) >= 0, libc.shmget(0x1234, 4096, 0o666) >= 0])
"""
    assert attack(prison.shared(), ask, flags=0o1000) == [True, True]
    assert attack(prison.shared("neighbour"), ask, flags=0) == [False, False]
    assert "0x00001234" not in subprocess.run(["ipcs", "-m"], capture_output=True, text=True, check=True).stdout
