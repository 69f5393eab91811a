"""A tenant who takes all he can get of one thing after the other, in a sandbox with the limits that every client has. The
promises to the others are what the run checks anyway."""

#  Each takes until it is refused, at most so much that it would hurt a host without the wall, and holds it for a while.
PROGRAMS = {
    "memory": "held = [bytearray(b'x' * (8 << 20)) for _ in range(512)]",
    "processes": """
for _ in range(20000):
    try:
        if os.fork() == 0:
            time.sleep(seconds)
            os._exit(0)
    except OSError:
        break
""",
    "processors": """
import threading
for _ in range(32):
    if os.fork() == 0:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            pass
        os._exit(0)
""",
    "descriptors": """
for _ in range(64):
    if os.fork() == 0:
        take(lambda: os.open('/dev/null', os.O_RDONLY), 100000)
        time.sleep(seconds)
        os._exit(0)
""",
    "pipes": "take(lambda: [os.write(w, b'x' * 65536) for w in [os.pipe()[1]]], 20000)",
    "sockets": """
def stuffed():
    a, b = socket.socketpair()
    a.setblocking(False)
    held.append(b)
    try:
        while True:
            a.send(b'x' * 65536)
    except BlockingIOError:
        return a
take(stuffed, 20000)
""",
    "inotify": "take(lambda: checked(libc.inotify_init()), 20000)",
    "signals": """
libc.sigqueue.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_void_p]
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
take(lambda: checked(libc.sigqueue(os.getpid(), signal.SIGRTMIN, None)), 200000)
""",
    "message queues": "take(lambda: checked(libc.mq_open(b'/q%d' % len(held), os.O_CREAT | os.O_RDWR, 0o600, None)), 20000)",
    "terminals": "take(lambda: os.open('/dev/ptmx', os.O_RDWR | os.O_NOCTTY), 20000)",
    "flows": """
for port in range(1, 20000):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as each:
        try:
            each.sendto(b'x', ('198.51.100.1', port))
        except OSError:
            pass
""",
    "shared memory": "take(lambda: checked(libc.shmget(0, 1 << 20, 0o1600)), 20000)",
}

PRELUDE = """
import ctypes, os, signal, socket, time
libc = ctypes.CDLL(None, use_errno=True)
held = []

def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), 'refused')
    return result

def take(one, most):
    try:
        for _ in range(most):
            held.append(one())
    except OSError:
        pass

seconds = {seconds}
"""


class Tenant:
    def __init__(self, server, body):
        self._server = server
        self._id = server.create(**body)["id"]

    def exhaust(self, name, seconds):
        """Returns after so long; memory and processes of the attack may have ended before."""
        program = PRELUDE.format(seconds=seconds) + PROGRAMS[name] + "\ntime.sleep(seconds)\n"
        self._server.run(self._id, f"exec python3 - <<'PROGRAM'\n{program}\nPROGRAM", timeout=60_000)

    def leave(self):
        self._server.delete(self._id)
