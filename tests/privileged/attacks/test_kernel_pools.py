"""Pools that the kernel has once, for all users: no sandbox empties one."""

import pytest

from attack import attack, here, number_of

pytestmark = pytest.mark.wall("Pools of the whole kernel", second="memory of the cgroup")

#  Each defines take(most), as in test_user_counters.py.
TERMINALS = """
def take(most):
    kept = []
    for made in range(most):
        terminal = attempt(os.open, '/dev/ptmx', os.O_RDWR | os.O_NOCTTY)
        if not isinstance(terminal, int):
            return made
    return most
"""
SHARED_MEMORY = """
def take(most):
    for made in range(most):
        segment = libc.shmget(0, 4096, 0o1600)
        if segment < 0:
            return made
        if not keep:
            libc.shmctl(segment, 0, None)
    return most
"""
SEMAPHORES = """
def take(most):
    for made in range(most):
        semaphores = libc.semget(0, 1, 0o1600)
        if semaphores < 0:
            return made
        if not keep:
            libc.semctl(semaphores, 0, 0, None)
    return most
"""
THINGS = {"terminals": (TERMINALS, 5000), "shared memory": (SHARED_MEMORY, 5000), "semaphores": (SEMAPHORES, 40_000)}


@pytest.mark.attack(on="native gvisor")
@pytest.mark.parametrize("thing", THINGS)
def test_a_sandbox_does_not_empty_a_pool(prison, prisoner, thing):
    taking, most = THINGS[thing]
    hog = prison.create()
    taken = attack(hog, taking + "report(hold(lambda: take(most)))", most=most, keep=True)
    assert 0 < taken < most or prison.kind == "gvisor"
    one = taking + "report(take(1))"
    assert [attack(prisoner, one, keep=False), here(one, keep=False), attack(prison.create(), one, keep=False)] == [1, 1, 1]


@pytest.mark.attack(on="native")
def test_a_sandbox_has_its_share_of_terminals_and_no_more(prison):
    """Also as other users, and with a second master of the same instance."""
    hog = prison.create()
    taken = attack(hog, TERMINALS + """
def as_user(user):
    os.setresuid(user, user, user)
    return take(5000)
report([hold(lambda: take(40)), hold(lambda: as_user(1000)), hold(lambda: as_user(1001)),
        attempt(os.open, '/dev/pts/ptmx', os.O_RDWR)])
""")
    assert taken[0] == 40 and 0 < taken[1] <= 64 and taken[2:] == [0, "ENOSPC"], taken


def test_a_sandbox_takes_no_asynchronous_requests(prison, prisoner):
    """fs.aio-max-nr is one number for all; a few calls would take it."""
    setup = """
def take(most):
    for made in range(most):
        context = ctypes.c_ulong()
        got = syscall(number, 8000, ctypes.byref(context))
        if got != 0:
            return got
    return most
"""
    hog = prison.create()
    taken = attack(hog, setup + "report(hold(lambda: take(20)))", number=number_of("io_setup"))
    assert taken == "ENOSYS" or prison.kind == "gvisor"
    assert here("context = ctypes.c_ulong()\nreport(syscall(number, 1, ctypes.byref(context)))",
                number=number_of("io_setup")) == 0


@pytest.mark.attack(on="native")
@pytest.mark.parametrize("option", [26, 50, 51, 52])
@pytest.mark.parametrize("family, kind", [(2, 1), (2, 2), (1, 2), (16, 3)])
def test_a_sandbox_compiles_no_packet_filters(prisoner, option, family, kind):
    """They fill net.core.bpf_jit_limit; then no seccomp filter can be installed, and no sandbox be made."""
    got = attack(prisoner, """
program = (ctypes.c_uint64 * 1)(0x0000ffff00000006)
class Filter(ctypes.Structure):
    _fields_ = [('count', ctypes.c_ushort), ('code', ctypes.c_void_p)]
wanted = Filter(1, ctypes.addressof(program))
one = socket.socket(family, kind)
def attach(level):
    return syscall(number, one.fileno(), level, option, ctypes.byref(wanted), ctypes.sizeof(wanted))
one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
report([attach(1), attach(1 << 32 | 1)])
""", family=family, kind=kind, option=option, number=number_of("setsockopt"))
    assert got == ["EPERM", "EPERM"]
