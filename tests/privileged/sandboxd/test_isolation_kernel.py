"""Requests of a sandbox's root to the kernel that must be refused."""

import os
import time

import pytest

from attack import attack, number_of

CLONE_FLAGS = {"NEWNS": 0x20000, "NEWCGROUP": 0x2000000, "NEWUTS": 0x4000000, "NEWIPC": 0x8000000,
               "NEWUSER": 0x10000000, "NEWPID": 0x20000000, "NEWNET": 0x40000000}


@pytest.fixture(scope="module")
def prisoner(daemon):
    """Nothing in this file harms a sandbox for good: all share one."""
    return daemon.create("prisoner")


@pytest.fixture(autouse=True)
def no_sandboxes_left():
    """Instead of the removal after every test."""
    yield



# Name of the call, its arguments, what it answers. Most would fail for want of a capability too: arguments are such
# that the kernel's own answer is another one wherever there is one.
CALLS = [
    ("bpf", [0, 0, 0], "EPERM"),
    ("perf_event_open", [0, 0, -1, -1, 0], "EPERM"),
    ("io_uring_setup", [8, 0], "EPERM"),
    ("io_uring_enter", [-1, 0, 0, 0, 0, 0], "EPERM"),
    ("userfaultfd", [1], "EPERM"),
    ("keyctl", [0, -3, 1], "EPERM"),
    ("add_key", [0, 0, 0, 0, -3], "EPERM"),
    ("request_key", [0, 0, 0, -3], "EPERM"),
    ("init_module", [0, 0, 0], "EPERM"),
    ("finit_module", [-1, 0, 0], "EPERM"),
    ("delete_module", [0, 0], "EPERM"),
    ("kexec_load", [0, 0, 0, 0], "EPERM"),
    ("reboot", [0, 0, 0, 0], "EPERM"),
    ("syslog", [10, 0, 0], "EPERM"),
    ("open_by_handle_at", [-100, 0, 0], "EPERM"),
    ("settimeofday", [0, 0], "EPERM"),
    ("clock_settime", [0, 0], "EPERM"),
    ("clock_adjtime", [0, 0], "EPERM"),
    ("sethostname", [0, 0], "EPERM"),
    ("setdomainname", [0, 0], "EPERM"),
    ("swapon", [0, 0], "EPERM"),
    ("swapoff", [0], "EPERM"),
    ("acct", [0], "EPERM"),
    ("quotactl", [0, 0, 0, 0], "EPERM"),
    ("fanotify_init", [0, 0], "EPERM"),
    ("iopl", [0], "EPERM"),
    ("ioperm", [0, 1, 1], "EPERM"),
    ("modify_ldt", [0, 0, 0], "EPERM"),
    ("mount", [0, 0, 0, 0, 0], "EPERM"),
    ("umount2", [0, 0], "EPERM"),
    ("pivot_root", [0, 0], "EPERM"),
    ("open_tree", [-100, 0, 0], "EPERM"),
    ("move_mount", [-1, 0, -1, 0, 0], "EPERM"),
    ("fsopen", [0, 0], "EPERM"),
    ("fsmount", [-1, 0, 0], "EPERM"),
    ("mount_setattr", [-1, 0, 0, 0, 0], "EPERM"),
    ("setns", [-1, 0], "EPERM"),
    ("clone3", [0, 0], "ENOSYS"),  # so that libc takes clone, whose flags can be seen
    *[("unshare", [flag], "EPERM") for flag in CLONE_FLAGS.values()],
    *[("clone", [flag | 17, 0, 0, 0, 0], "EPERM") for flag in CLONE_FLAGS.values()],
    ("personality", [0x0400000], "EPERM"),  # READ_IMPLIES_EXEC
    ("vhangup", [], "EPERM"),
    ("nfsservctl", [], "ENOSYS"),
    ("uselib", [], "ENOSYS"),
]


def test_dangerous_system_calls_are_refused(prisoner):
    calls = [[name, number_of(name), args] for name, args, _ in CALLS]
    got = attack(prisoner, """
report([[name, args, in_child(lambda: syscall(number, *args))] for name, number, args in calls])
""", calls=calls)
    assert got == [[name, args, answer] for name, args, answer in CALLS]


def test_threads_and_processes_may_be_made_all_the_same(prisoner):
    """The other side of the filter on clone: what every program needs."""
    assert attack(prisoner, """
import threading
done = []
thread = threading.Thread(target=lambda: done.append(in_child(lambda: 'child')))
thread.start()
thread.join()
report(done)
""") == ["child"]


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="two other sets of system calls exist on x86-64 only")
def test_other_sets_of_system_calls_do_not_pass_the_filter(prisoner):
    got = attack(prisoner, """
import mmap
memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
# push rbx; mov eax, edi; mov ebx, esi; int 0x80; pop rbx; ret
memory.write(bytes.fromhex('53 89f8 89f3 cd80 5b c3'))
run = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
report({'i386 unshare': in_child(lambda: run(310, 0x10000000)), 'i386 getpid': in_child(lambda: run(20, 0)),
        'x32 unshare': in_child(lambda: syscall(0x40000000 | 272, 0x10000000))})
""")
    assert got["x32 unshare"] in ("ENOSYS", "EPERM", "signal 31")
    #  For any call: the filter knows no 32-bit calls.
    assert got["i386 getpid"] == got["i386 unshare"]
    assert got["i386 getpid"] in ("signal 31", -38)


SOCKETS = [
    ("packets", 17, 3, 0, "EAFNOSUPPORT"),
    ("kernel crypto", 38, 5, 0, "EAFNOSUPPORT"),
    ("virtual machine", 40, 1, 0, "EAFNOSUPPORT"),
    ("firewall", 16, 3, 12, "EAFNOSUPPORT"),
    ("audit", 16, 3, 9, "EAFNOSUPPORT"),
    ("kernel events", 16, 3, 15, "EAFNOSUPPORT"),
    ("SCTP", 2, 1, 132, "EPROTONOSUPPORT"),
    ("raw IP", 2, 3, 255, "EPERM"),
    ("raw ICMP", 2, 3, 1, "EPERM"),
]


def test_only_ordinary_sockets_can_be_made(prisoner):
    got = attack(prisoner, """
def make(family, kind, protocol):
    socket.socket(family, kind, protocol).close()
    return 'made'
report([[name, attempt(make, family, kind, protocol)] for name, family, kind, protocol, _ in sockets]
       + [['TCP', attempt(make, 2, 1, 0)], ['Unix', attempt(make, 1, 1, 0)], ['routes', attempt(make, 16, 3, 0)]])
""", sockets=SOCKETS)
    assert got == [[name, answer] for name, *_, answer in SOCKETS] + [["TCP", "made"], ["Unix", "made"],
                                                                      ["routes", "made"]]


def test_nothing_in_proc_sys_can_be_written(prisoner):
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


def test_nothing_in_sys_can_be_written(prisoner):
    got = attack(prisoner, """
writable, tried = [], 0
for directory, _, names in os.walk('/sys'):
    for name in names:
        path = f'{directory}/{name}'
        if os.path.islink(path):
            continue
        tried += 1
        if opened(path, os.O_WRONLY) == 'opened':
            writable.append(path)
report([writable, tried, attempt(os.chmod, '/sys/kernel', 0o777)])
""")
    assert got[0] == []
    assert got[1] > 100
    assert got[2] == "EROFS"


def test_its_own_cgroup_can_be_read_and_not_changed(prisoner):
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


def test_files_of_proc_about_the_host_are_closed_or_empty(prisoner):
    got = attack(prisoner, """
def content(path):
    with open(path, 'rb') as file:
        return len(file.read(64))
report({path: attempt(content, path) for path in paths})
""", paths=["/proc/kcore", "/proc/kmsg", "/proc/keys", "/proc/key-users", "/proc/timer_list", "/proc/interrupts",
            "/proc/sched_debug", "/proc/vmallocinfo", "/proc/slabinfo", "/proc/kpagecount", "/proc/sysrq-trigger"])
    assert set(got.values()) <= {0, "EACCES", "EPERM", "ENOENT", "EIO"}, got
    written = attack(prisoner, "report([opened('/proc/sysrq-trigger', os.O_WRONLY), "
                               "opened('/proc/irq/default_smp_affinity', os.O_WRONLY)])")
    assert set(written) <= {"EACCES", "EROFS", "ENOENT"}, written
    assert "Operation not permitted" in prisoner.run("dmesg")[1]


def test_kernel_addresses_are_not_shown(prisoner):
    assert set(prisoner.output("head -n 200 /proc/kallsyms | cut -d ' ' -f 1").split()) <= {"0" * 16}


def test_device_nodes_cannot_be_made(prisoner):
    disk = os.stat("/").st_dev
    got = attack(prisoner, """
import stat
nodes = {'disk': (stat.S_IFBLK, os.makedev(*disk)), 'memory': (stat.S_IFCHR, os.makedev(1, 1)),
         'kernel log': (stat.S_IFCHR, os.makedev(1, 11)), 'tun': (stat.S_IFCHR, os.makedev(10, 200)),
         'fuse': (stat.S_IFCHR, os.makedev(10, 229))}
report([[name, place, attempt(os.mknod, f'{place}/node', kind | 0o666, device)]
        for name, (kind, device) in nodes.items() for place in ('/tmp', '/dev', '/dev/shm')])
""", disk=[os.major(disk), os.minor(disk)])
    assert {answer for *_, answer in got} == {"EPERM"}, got


def test_dev_holds_only_harmless_devices(prisoner):
    listing = prisoner.output("cd /dev; find . -type b; find . -type c | sort")
    assert listing.split() == ["./full", "./null", "./pts/ptmx", "./random", "./tty", "./urandom", "./zero"]


def test_a_terminal_takes_no_input_from_others(prisoner):
    assert attack(prisoner, """
import fcntl, pty, termios
leader, terminal = pty.openpty()
size = fcntl.ioctl(terminal, termios.TIOCGWINSZ, b'\\0' * 8)
report([len(size), attempt(fcntl.ioctl, terminal, 0x5412, b'x'), attempt(fcntl.ioctl, terminal, 0x541c, b'\\x03')])
""") == [8, "EPERM", "EPERM"]


def test_the_clock_is_the_hosts(prisoner):
    before = time.time()
    code, text = prisoner.run("date -s '2001-01-01'")
    assert code != 0 and "Operation not permitted" in text
    # adjtimex may be asked, not told: ADJ_OFFSET wants CAP_SYS_TIME.
    assert attack(prisoner, f"""
buffer = ctypes.create_string_buffer(512)
asked = syscall({number_of("adjtimex")}, buffer)
struct.pack_into('I', buffer, 0, 1)
report([isinstance(asked, int), syscall({number_of("adjtimex")}, buffer)])
""") == [True, "EPERM"]
    assert abs(time.time() - before) < 60


def test_the_hosts_name_stays(daemon, prisoner):
    host = os.uname().nodename
    prisoner.run("hostname stolen; echo stolen > /proc/sys/kernel/hostname")
    assert prisoner.output("hostname") == "prisoner"
    assert os.uname().nodename == host


def test_it_has_no_more_than_the_capabilities_it_was_given(prisoner):
    status = dict(line.split(":\t", 1) for line in prisoner.output("cat /proc/self/status").splitlines())
    allowed = {0, 1, 3, 4, 5, 6, 7, 8, 10, 18, 29, 31}  # Docker's without net_raw and mknod
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        held = {bit for bit in range(64) if int(status[name], 16) >> bit & 1}
        assert held <= allowed, name
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"
