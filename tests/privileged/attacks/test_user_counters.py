"""Counters that the kernel keeps per user: one sandbox uses up all that it gets, the others still get theirs."""

import pytest

from attack import attack, here, number_of

pytestmark = pytest.mark.wall("Counters per user", second="limits of the user namespace, memory of the cgroup")

#  Each defines take(most): takes up to so many of one thing, keeps them, returns how many the kernel gave.
INOTIFY = """
def take(most):
    import resource
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    for made in range(min(most, files - 100)):
        if libc.inotify_init1(os.O_CLOEXEC) < 0:
            return made
    return most
"""
SIGNALS = """
def take(most):
    signal.pthread_sigmask(signal.SIG_BLOCK, range(signal.SIGRTMIN, signal.SIGRTMAX))
    for made in range(most):
        if libc.sigqueue(os.getpid(), int(signal.SIGRTMIN), None) < 0:
            return made
    return most
"""
TIMERS = """
def take(most):
    timer = ctypes.c_void_p()
    for made in range(most):
        if libc.timer_create(0, None, ctypes.byref(timer)) < 0:
            return made
    return most
"""
QUEUES = """
def take(most):
    class Attributes(ctypes.Structure):
        _fields_ = [(name, ctypes.c_long) for name in ('flags', 'most', 'size', 'now', 'a', 'b', 'c', 'd')]
    attributes = Attributes(0, 10, 8192, 0, 0, 0, 0, 0)
    for made in range(most):
        name = f'/queue-{os.getpid()}-{made}'.encode()
        queue = libc.mq_open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600, ctypes.byref(attributes))
        if queue < 0:
            return made
        if not keep:
            libc.mq_unlink(name)
            os.close(queue)
    return most
"""
#  How many one sandbox tries to take. All are more than the kernel gives to one user by default.
THINGS = {"inotify instances": (INOTIFY, 3000), "pending signals": (SIGNALS, 150_000), "timers": (TIMERS, 150_000),
          "message queues": (QUEUES, 200)}


def take_one(prison, neighbour, taking):
    """Whether a neighbour, the host's root and a sandbox that is made now get one thing each."""
    one = taking + "report(take(1))"
    return [attack(neighbour, one, keep=False), here(one, keep=False), attack(prison.create(), one, keep=False)]


@pytest.mark.attack(on="native gvisor")
@pytest.mark.parametrize("thing", THINGS)
def test_a_sandbox_does_not_use_up_what_others_have(prison, prisoner, thing):
    taking, most = THINGS[thing]
    hog = prison.create()
    taken = attack(hog, taking + "report(hold(lambda: take(most)))", most=most, keep=True)
    assert taken > 0
    if prison.kind == "native":
        assert taken < most, "the kernel gave all: the attack proves nothing"
    assert take_one(prison, prisoner, taking) == [1, 1, 1]


@pytest.mark.attack(on="native")
@pytest.mark.parametrize("thing", THINGS)
def test_many_users_of_a_sandbox_share_one_counter(prison, prisoner, thing):
    """Root inside is as many users as it likes; each has a counter, and all of them together have one more."""
    taking, most = THINGS[thing]
    hog = prison.create()
    taken = attack(hog, taking + """
def as_user(user):
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    return take(most)
report([hold(lambda: as_user(user)) for user in range(1000, 1005)])
""", most=most, keep=True)
    assert 0 < taken[0] < most and taken[-1] == 0, taken
    assert take_one(prison, prisoner, taking) == [1, 1, 1]


@pytest.mark.attack(on="native")
@pytest.mark.parametrize("limit, thing", [("RLIMIT_SIGPENDING", "pending signals"), ("RLIMIT_MSGQUEUE", "message queues")])
def test_a_higher_limit_of_a_process_gives_no_more(prison, prisoner, limit, thing):
    taking, most = THINGS[thing]
    hog = prison.create()
    before = attack(hog, taking + "report(in_child(lambda: take(most)))", most=most, keep=False)
    raised, taken = attack(hog, taking + f"""
import resource
def raised():
    resource.setrlimit(resource.{limit}, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return 'raised'
def attempt_to_raise():
    try:
        return raised()
    except (OSError, ValueError):
        return 'refused'
report([attempt_to_raise(), hold(lambda: take(most))])
""", most=most, keep=True)
    assert raised == "refused" and 0 < taken < most, (raised, taken)
    assert before == most or taken <= before, "message queues of the first try are gone again"
    assert take_one(prison, prisoner, taking) == [1, 1, 1]


@pytest.mark.attack(on="native")
def test_sandboxd_still_watches_files(prison):
    """It follows logs by inotify, as the host's root."""
    hog = prison.create()
    taken = attack(hog, INOTIFY + "report(hold(lambda: take(3000)))")
    assert 0 < taken < 3000
    daemon = prison.daemon
    writer = daemon.create("writer", entrypoint=[
        "/bin/sh", "-c", "mkfifo /tmp/pipe; echo ready; read -r word < /tmp/pipe; echo got $word; sleep 1000"])

    def answer(text):
        if text == "ready\n":
            writer.output("echo it > /tmp/pipe")
        return text == "ready\ngot it\n"

    try:
        assert daemon.said("writer", answer) == "ready\ngot it\n"
    finally:
        writer.remove()


@pytest.mark.attack(on="native")
def test_pipes_of_one_sandbox_do_not_shrink_those_of_another(prison, prisoner):
    """A user beyond its share of pipe pages gets pipes of two pages and may not enlarge them."""
    big = """
import fcntl
def take(most):
    for made in range(most):
        if attempt(fcntl.fcntl, os.pipe()[1], 1031, 1 << 20) != 1 << 20:
            return made
    return most
"""
    hog = prison.create()
    assert 0 < attack(hog, big + "report(hold(lambda: take(200)))") < 200
    assert [attack(prisoner, big + "report(take(1))"), here(big + "report(take(1))")] == [1, 1]


@pytest.mark.attack(on="native")
def test_keys_are_not_kept_for_a_sandbox(prisoner):
    """Keys are counted per user of the host; a sandbox makes none."""
    assert attack(prisoner, "report([syscall(add, b'user', b'a', b'b', 1, -3), syscall(control, 0, -3, 1)])",
                  add=number_of("add_key"), control=number_of("keyctl")) == ["EPERM", "EPERM"]
