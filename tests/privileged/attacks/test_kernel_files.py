"""The kernel's own files (/proc, /sys, /dev), its clock and its names, reached for by a sandbox's root."""

import os
import time

import pytest

from attack import attack, attack_each_way, number_of

pytestmark = pytest.mark.wall("Files of the kernel", second="no capability in the host's user namespace")


@pytest.mark.attack(on="native docker")
def test_nothing_in_proc_sys_is_written(prisoner):
    got = attack(prisoner, """
writable, tried = [], 0
for directory, _, names in os.walk('/proc/sys'):
    for name in names:
        tried += 1
        if opened(f'{directory}/{name}', os.O_WRONLY) == 'opened':
            writable.append(f'{directory}/{name}')
report([writable, tried, opened('/proc/sys/net/ipv4/ip_forward', os.O_WRONLY),
        opened('/proc/sys/kernel/core_pattern', os.O_WRONLY)])
""")
    assert got[0] == []
    assert got[1] > 100
    assert set(got[2:]) <= {"EACCES", "EROFS"}


@pytest.mark.attack(on="native docker")
def test_nothing_in_sys_is_written(prisoner):
    got = attack(prisoner, """
writable, tried = [], 0
for directory, _, names in os.walk('/sys'):
    for name in names:
        path = f'{directory}/{name}'
        if os.path.islink(path) or not os.path.isfile(path):
            continue  # /dev/null lies over files that are not to be seen
        tried += 1
        if opened(path, os.O_WRONLY) == 'opened':
            writable.append(path)
report([writable, tried, attempt(os.chmod, '/sys/kernel', 0o777)])
""")
    assert got[0] == []
    assert got[1] > 100
    assert got[2] == "EROFS"


@pytest.mark.attack(on="native")
def test_its_own_cgroup_is_read_and_not_changed(prisoner):
    got = attack(prisoner, """
files = glob.glob('/sys/fs/cgroup/**', recursive=True)
report({'limits': [opened(p) for p in files if p.endswith(('pids.max', 'memory.max', 'memory.limit_in_bytes'))],
        'written': [p for p in files if os.path.isfile(p) and opened(p, os.O_WRONLY) == 'opened'],
        'made': [attempt(os.mkdir, p + '/mine') for p in files if os.path.isfile(p + '/cgroup.procs')],
        'above': open('/proc/self/cgroup').read()})
""")
    assert got["limits"] and set(got["limits"]) == {"opened"}
    assert got["written"] == []
    assert got["made"] and set(got["made"]) == {"EROFS"}
    assert all(line.endswith(":/") for line in got["above"].split())


MASKED = ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sched_debug", "/proc/scsi",
          "/sys/firmware", "/proc/acpi"]


@pytest.mark.parametrize("path", MASKED)
@pytest.mark.attack(on="native docker")
def test_a_file_about_the_host_is_closed_or_empty(prisoner, path):
    """Those that every container engine masks."""
    assert attack_each_way(prisoner, """
def do(path):
    if os.path.isdir(path):
        return len(os.listdir(path))
    with open(path, 'rb') as file:
        return len(file.read(64))
""", {path: {"path": path} for path in MASKED})[path] in {0, "EACCES", "EPERM", "ENOENT", "EIO"}


OPEN_ELSEWHERE = ["/proc/kmsg", "/proc/key-users", "/proc/interrupts", "/proc/vmallocinfo", "/proc/slabinfo",
                  "/proc/kpagecount", "/proc/kpageflags", "/dev/kmsg", "/sys/kernel/debug/x",
                  "/sys/kernel/tracing/trace", "/sys/kernel/vmcoreinfo", "/sys/kernel/notes"]


@pytest.mark.parametrize("path", OPEN_ELSEWHERE)
@pytest.mark.attack(on="native")
def test_a_file_about_the_hosts_memory_and_processors_is_closed(prisoner, path):
    """Those that engines leave open to a container's root."""
    got = attack_each_way(prisoner, """
def do(path):
    with open(path, 'rb') as file:
        return len(file.read(64))
""", {path: {"path": path} for path in OPEN_ELSEWHERE})[path]
    assert got in {0, "EACCES", "EPERM", "ENOENT", "EIO"}


SWITCHES = ["/proc/sysrq-trigger", "/proc/irq/default_smp_affinity", "/proc/sys/kernel/modprobe",
            "/proc/sys/vm/drop_caches", "/proc/sys/fs/binfmt_misc/register", "/proc/bus/pci",
            "/sys/kernel/uevent_helper", "/sys/power/state", "/sys/fs/cgroup/release_agent"]


@pytest.mark.parametrize("path", SWITCHES)
def test_a_switch_of_the_host_is_not_turned(prisoner, path):
    got = attack_each_way(prisoner, "def do(path): return opened(path, os.O_WRONLY)", {path: {"path": path} for path in SWITCHES})
    assert got[path] in {"EACCES", "EROFS", "ENOENT", "EPERM", "EISDIR"}


def test_kernel_addresses_are_not_shown(prisoner):
    assert set(prisoner.output("test ! -e /proc/kallsyms || head -n 200 /proc/kallsyms | cut -d ' ' -f 1").split()) <= {
        "0" * 16}


@pytest.mark.attack(on="native docker")
@pytest.mark.parametrize("place", ["/tmp", "/dev", "/dev/shm"])
def test_a_device_that_is_made_inside_opens_no_device(prisoner, place):
    disk = os.stat("/").st_dev
    got = attack(prisoner, """
import stat
nodes = {'disk': (stat.S_IFBLK, os.makedev(*disk)), 'memory': (stat.S_IFCHR, os.makedev(1, 1)),
         'kernel log': (stat.S_IFCHR, os.makedev(1, 11)), 'tun': (stat.S_IFCHR, os.makedev(10, 200)),
         'fuse': (stat.S_IFCHR, os.makedev(10, 229)), 'loop': (stat.S_IFBLK, os.makedev(7, 0))}
answers = {}
for name, (kind, device) in nodes.items():
    made = attempt(os.mknod, f'{place}/node', kind | 0o666, device)
    answers[name] = opened(f'{place}/node', os.O_RDWR) if made is None else made
    if made is None:
        os.unlink(f'{place}/node')
report(answers)
""", disk=[os.major(disk), os.minor(disk)], place=place)
    assert set(got.values()) <= {"EPERM", "EACCES", "ENXIO", "ENODEV"}, got


@pytest.mark.attack(on="native")
def test_dev_holds_only_harmless_devices(prisoner):
    listing = prisoner.output("cd /dev; find . -type b; find . -type c | sort")
    assert listing.split() == ["./full", "./null", "./pts/ptmx", "./random", "./tty", "./urandom", "./zero"]


@pytest.mark.attack(on="native")
def test_a_terminal_takes_no_input_from_others(prisoner):
    assert attack(prisoner, """
import fcntl, pty, termios
leader, terminal = pty.openpty()
size = fcntl.ioctl(terminal, termios.TIOCGWINSZ, b'\\0' * 8)
report([len(size), attempt(fcntl.ioctl, terminal, 0x5412, b'x'), attempt(fcntl.ioctl, terminal, 0x541c, b'\\x03')])
""") == [8, "EPERM", "EPERM"]


def test_the_clock_of_the_host_is_not_set(prisoner):
    before = time.time()
    assert prisoner.run("date -s '2001-01-01'")[0] != 0
    assert abs(time.time() - before) < 3600


@pytest.mark.attack(on="native docker")
def test_the_clock_of_the_host_is_not_slewed(prisoner):
    """adjtimex may be asked, not told: ADJ_OFFSET wants CAP_SYS_TIME."""
    assert attack(prisoner, f"""
buffer = ctypes.create_string_buffer(512)
asked = syscall({number_of("adjtimex")}, buffer)
struct.pack_into('I', buffer, 0, 1)
report(syscall({number_of("adjtimex")}, buffer))
""") == "EPERM"


def test_the_name_of_the_host_stays(prison):
    host = os.uname().nodename
    prison.create().run("hostname stolen; echo stolen > /proc/sys/kernel/hostname;"
                        "python3 -c 'import socket; socket.sethostname(\"stolen\")'")
    assert os.uname().nodename == host


@pytest.mark.attack(on="native")
def test_root_inside_has_no_more_than_the_capabilities_it_was_given(prisoner):
    status = dict(line.split(":\t", 1) for line in prisoner.output("cat /proc/self/status").splitlines())
    allowed = {0, 1, 3, 4, 5, 6, 7, 8, 10, 18, 29, 31}  # Docker's without net_raw and mknod
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        held = {bit for bit in range(64) if int(status[name], 16) >> bit & 1}
        assert held <= allowed, name
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"
