"""Requests of a sandbox's root to the kernel of the host."""

import os

import pytest

from attack import attack, attack_each_way, number_of

pytestmark = pytest.mark.wall("System calls", second="no capability in the host's user namespace")

CLONE_FLAGS = {"mount": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000, "ipc": 0x8000000, "user": 0x10000000,
               "pid": 0x20000000, "net": 0x40000000}
REFUSED = {"EPERM", "ENOSYS", "EACCES", "signal 31"}

#  Arguments are such that the kernel's own answer to somebody who may is another one than a refusal.
CALLS = {
    "bpf": [0, 0, 0], "perf_event_open": [0, 0, -1, -1, 0], "userfaultfd": [1],
    "keyctl": [0, -3, 1], "add_key": [0, 0, 0, 0, -3], "request_key": [0, 0, 0, -3], "init_module": [0, 0, 0],
    "finit_module": [-1, 0, 0], "delete_module": [0, 0], "kexec_load": [0, 0, 0, 0], "reboot": [0, 0, 0, 0],
    "syslog": [10, 0, 0], "open_by_handle_at": [-100, 0, 0], "settimeofday": [0, 0], "clock_settime": [0, 0],
    "sethostname": [0, 0], "setdomainname": [0, 0], "swapon": [0, 0], "swapoff": [0], "acct": [0],
    "quotactl": [0, 0, 0, 0], "fanotify_init": [0, 0], "iopl": [3], "ioperm": [0, 1, 1], "mount": [0, 0, 0, 0, 0],
    "umount2": [0, 0], "pivot_root": [0, 0], "open_tree": [-100, 0, 0], "move_mount": [-1, 0, -1, 0, 0],
    "fsopen": [0, 0], "fsmount": [-1, 0, 0], "mount_setattr": [-1, 0, 0, 0, 0], "setns": [-1, 0], "vhangup": [],
    "lookup_dcookie": [0, 0, 0],
}


@pytest.mark.attack(on="native docker", holds_on_podman=False)  # six of them pass its profile (docs/docker.md)
@pytest.mark.parametrize("name", CALLS)
def test_a_dangerous_system_call_is_refused(prisoner, name):
    calls = {name: {"number": number_of(name), "args": args} for name, args in CALLS.items()}
    assert attack_each_way(prisoner, "def do(number, args): return syscall(number, *args)", calls)[name] in REFUSED


@pytest.mark.attack(on="native")
def test_rings_of_the_kernel_are_refused(prisoner):
    """io_uring, whose requests no filter sees. Engines before Docker 25 allow it in their own profile."""
    assert attack(prisoner, "report(in_child(lambda: syscall(number, 8, 0)))", number=number_of("io_uring_setup")) in REFUSED


@pytest.mark.attack(on="native docker", holds_on_podman=False)  # its profile allows user namespaces
@pytest.mark.parametrize("kind", CLONE_FLAGS)
def test_no_namespace_is_made_inside(prisoner, kind):
    calls = {name: {"unshare": number_of("unshare"), "clone": number_of("clone"), "flag": flag}
             for name, flag in CLONE_FLAGS.items()}
    got = attack_each_way(prisoner, """
def do(unshare, clone, flag):
    return [in_child(lambda: syscall(unshare, flag)), in_child(lambda: syscall(clone, flag | 17, 0, 0, 0, 0))]
""", calls)[kind]
    assert set(got) <= REFUSED, got


def test_the_filter_still_lets_threads_and_processes_be_made(prisoner):
    """The other side of the filter: every program needs them."""
    assert attack(prisoner, """
import threading
done = []
thread = threading.Thread(target=lambda: done.append(in_child(lambda: 'child')))
thread.start()
thread.join()
report(done)
""") == ["child"]


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="two other sets of system calls exist on x86-64 only")
@pytest.mark.attack(on="native")
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
    assert got["x32 unshare"] in REFUSED
    #  For any call: the filter knows no 32-bit calls.
    assert got["i386 getpid"] == got["i386 unshare"]
    assert got["i386 getpid"] in ("signal 31", -38)


SOCKETS = {"packets": (17, 3, 3), "kernel crypto": (38, 5, 0), "firewall": (16, 3, 12), "audit": (16, 3, 9),
           "raw IP": (2, 3, 255), "raw ICMP": (2, 3, 1), "Bluetooth": (31, 3, 1), "CAN": (29, 3, 1), "TIPC": (30, 2, 0),
           "RDS": (21, 5, 0), "virtual machine": (40, 1, 0)}


@pytest.mark.attack(on="native")
@pytest.mark.parametrize("name", SOCKETS)
def test_a_socket_into_a_corner_of_the_kernel_is_not_made(prisoner, name):
    got = attack_each_way(prisoner, """
def make(family, kind, protocol):
    socket.socket(family, kind, protocol).close()
    return 'made'
def do(wanted):
    return [attempt(make, *wanted), attempt(make, 2, 1, 0), attempt(make, 1, 1, 0)]
""", {name: {"wanted": wanted} for name, wanted in SOCKETS.items()})[name]
    assert got[0] in ("EAFNOSUPPORT", "EPROTONOSUPPORT", "EPERM", "EACCES"), got
    assert got[1:] == ["made", "made"]
