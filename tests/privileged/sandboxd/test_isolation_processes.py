"""Processes of the host, of other sandboxes and execd itself, seen from inside."""

import os
import pathlib
import signal
import subprocess

import pytest

from attack import attack, number_of


@pytest.fixture
def prisoner(daemon):
    return daemon.create("prisoner", entrypoint=["sh", "-c", "env; exec sleep 1000"])


def test_only_its_own_processes_are_there(daemon, prisoner):
    other = daemon.create("other", entrypoint=["sleep", "12345"])
    seen = prisoner.output("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert "execd" in seen and "sleep 1000" in seen
    assert "12345" not in seen and "sandboxd" not in seen and "pytest" not in seen
    assert "sleep 12345" in other.output("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")


def test_it_cannot_signal_processes_it_cannot_see(daemon, prisoner):
    bystander = subprocess.Popen(["sleep", "1000"])
    try:
        got = attack(prisoner, """
own = {int(name) for name in os.listdir('/proc') if name.isdigit()}
others = set(pids) | set(range(2, 4000))
# Threads of its own processes have numbers too; they can be looked at, but are not listed.
tried = {pid: attempt(os.kill, pid, signal.SIGKILL) for pid in others - own if not os.path.exists(f'/proc/{pid}')}
report(sorted({got for pid, got in tried.items() if got is not None or not os.path.exists(f'/proc/{pid}')}, key=str))
""", pids=[bystander.pid, daemon.pid, os.getpid(), prisoner.status["pid"]])
        assert got == ["ESRCH"]
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_execd_survives_signals_of_root_inside(daemon):
    """Four signals ask it to end, as they ask every PID 1; no other does, and none stops it."""
    sandbox = daemon.create("prisoner")
    assert attack(sandbox, """
asking = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}
report([attempt(os.kill, 1, number) for number in set(signal.Signals) - asking])
""") == [None] * (len(signal.Signals) - 4)
    assert sandbox.output("echo still here") == "still here"
    sandbox.run("kill -TERM 1; sleep 60")
    assert daemon.wait_for_end("prisoner")["reason"] == "EXITED"


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


def test_the_token_is_nowhere_to_be_found(daemon, prisoner):
    token = prisoner.status["execd_token"]
    assert len(token) >= 32
    seen = prisoner.output("env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'; true")
    assert "PATH=" in seen and token not in seen and "ACCESS_TOKEN" not in seen
    log = daemon.said("prisoner", lambda text: "PATH=" in text)
    assert token not in log and "ACCESS_TOKEN" not in log
    # Nor to another user of the host: all that holds it is root's.
    assert (daemon.state.stat().st_mode & 0o077) == 0
    assert token not in daemon.log()


def test_every_process_has_ids_of_its_own_sandbox(daemon):
    ranges = []
    for name in ("one", "two"):
        sandbox = daemon.create(name, entrypoint=["sleep", "1000"])
        status = pathlib.Path(f"/proc/{sandbox.status['pid']}/status").read_text()
        ids = {int(word) for line in status.splitlines() if line.startswith(("Uid:", "Gid:"))
               for word in line.split()[1:]}
        base, count = (int(word) for word in sandbox.output("cat /proc/self/uid_map").split()[1:])
        assert count == 65536 and ids == {base}
        assert base >= 65536
        assert sandbox.output("cat /proc/self/gid_map").split() == ["0", str(base), "65536"]
        assert sandbox.run("python3 -c 'import os; os.setuid(65536)'")[0] != 0
        ranges.append(base)
    assert abs(ranges[0] - ranges[1]) >= 65536


def test_namespaces_are_all_its_own(daemon, prisoner):
    other = daemon.create("other")
    for kind in ("mnt", "pid", "net", "ipc", "uts", "user", "cgroup"):
        places = [os.readlink(f"/proc/{pid}/ns/{kind}")
                  for pid in ("self", prisoner.status["pid"], other.status["pid"])]
        assert len(set(places)) == 3, kind


def test_setuid_programs_gain_nothing_by_default(daemon):
    asked = ("cp /usr/bin/id /opt/id; chmod 4755 /opt/id; cd /opt; "
             "setpriv --reuid 1000 --regid 1000 --clear-groups /opt/id -u")
    assert daemon.create("plain").output(asked) == "1000"
    # The option makes sudo work, with the bounds of the sandbox's root.
    able = daemon.create("able", no_new_privileges=False)
    assert able.output(asked) == "0"
    assert able.output("grep -E 'NoNewPrivs|CapBnd' /proc/self/status").split() == [
        "CapBnd:", daemon.create("plain-2").output("grep CapBnd /proc/self/status").split()[1], "NoNewPrivs:", "0"]


def test_nested_user_namespaces_are_off_by_default(prisoner):
    code, text = prisoner.run("unshare --user true")
    assert code != 0 and "Operation not permitted" in text
    assert prisoner.output("cat /proc/sys/user/max_user_namespaces") == "0"


def test_nested_user_namespaces_give_no_power_over_the_sandbox(daemon):
    nested = daemon.create("nested", nested_user_namespaces=True)
    assert nested.output("unshare --user --map-root-user id -u") == "0"
    assert nested.output("unshare --user --map-root-user --mount sh -c 'mount -t tmpfs x /mnt && echo mounted'") == (
        "mounted")
    address = nested.output("ip -4 -o addr show eth0")
    for attack_inside in ("ip addr add 10.90.0.99/32 dev eth0", "ip link set eth0 down", "umount /proc/sys",
                          "mount -o remount,rw,bind /proc/sys", "mount -o remount,rw /sys",
                          "mount -t cgroup2 none /mnt", "sh -c 'echo 1 > /proc/sys/kernel/hostname'",
                          "nsenter --target 1 --mount true", "hostname stolen", "mknod /tmp/disk b 8 0"):
        code, text = nested.run(f"unshare --user --map-root-user --mount {attack_inside}")
        assert code != 0, f"{attack_inside}: {text}"
    assert nested.output("ip -4 -o addr show eth0") == address
    assert nested.output("hostname") == "nested"


def test_messages_and_shared_memory_stay_inside(daemon, prisoner):
    other = daemon.create("other")
    assert "0x00001234" in prisoner.output("python3 -c 'import ctypes; ctypes.CDLL(None).shmget(0x1234, 4096, 0o1666)';"
                                           "ipcs -m")
    assert "0x00001234" not in other.output("ipcs -m")
    assert "0x00001234" not in subprocess.run(["ipcs", "-m"], capture_output=True, text=True, check=True).stdout
