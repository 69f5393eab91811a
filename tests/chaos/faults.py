"""The faults, one at a time. Each returns a text for the report."""

import contextlib
import os
import pathlib
import random
import signal
import threading
import time

from checks import RECOVERY
from client import MOST_JUMP
from tenant import PROGRAMS, Tenant

WEIGHTS = {"kill_server": 4, "kill_sandboxd": 4, "kill_client": 5, "stop_execd": 3, "freeze_sandbox": 3,
           "set_clock": 4, "fill_disk": 2, "kill_both": 1, "kill_on_full_disk": 1,
           "hostile_tenant": 6}


class Faults(threading.Thread):
    """Injects until stop(). `done` lists {"fault", "at", "until", "s", ..}; `s` is the time to be ready again."""

    def __init__(self, world, clients, seed, begin):
        super().__init__(daemon=True)
        self._world, self._clients, self._begin = world, clients, begin
        self._rng = random.Random(f"{seed}/faults")
        self._ending = threading.Event()
        self._greed = []
        self.done = []
        self.broken = []

    def run(self):
        deck = []
        while not self._ending.wait(self._rng.uniform(1, 5)):
            if not deck:
                deck = [name for name, weight in WEIGHTS.items() for _ in range(weight)]
                # One of each first: also a short run has seen them all.
                rest = deck.copy()
                for name in WEIGHTS:
                    rest.remove(name)
                self._rng.shuffle(rest)
                kinds = list(WEIGHTS)
                self._rng.shuffle(kinds)
                deck = kinds + rest if not self.done else self._rng.sample(deck, len(deck))
            self.inject(deck.pop(0))

    def inject(self, name):
        noted = {"fault": name, "at": round(time.monotonic() - self._begin, 1)}
        try:
            noted |= getattr(self, name)() or {}
        except Exception as failure:  # after any failure the run has to go on to its verdict
            noted["failure"] = repr(failure)
            self.broken.append(f"{name} at {noted['at']} s: {failure!r}")
        noted["until"] = round(time.monotonic() - self._begin, 1)
        self.done.append(noted)

    def stop(self):
        self._ending.set()
        self.join()
        self._world.disk.relieve()
        self._world.set_clock(0)

    # --- processes

    def kill_server(self):
        self._world.server.kill()
        return self._start(server=True)

    def kill_sandboxd(self):
        self._world.daemon.kill()
        return self._start(daemon=True)

    def kill_both(self):
        self._world.server.kill()
        self._world.daemon.kill()
        return self._start(server=True, daemon=True)

    def _start(self, server=False, daemon=False):
        begin = time.monotonic()
        if daemon:
            self._world.daemon.start()
        if server:
            self._world.set_clock(0)  # a server that starts has nothing but the wall clock to go by
            self._world.server.start()
        self._world.wait_ready(RECOVERY)
        return {"s": round(time.monotonic() - begin, 3)}

    def kill_client(self):
        self._clients.kill_one(self._rng)

    # --- sandboxes that do not move

    def _processes(self):
        """{sandbox: [ids of its processes]} by the names of their cgroups."""
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                text = pathlib.Path(f"/proc/{pid}/cgroup").read_text()
                if (at := text.find(f"/{self._world.daemon.cgroup_parent}/")) >= 0:
                    name = text[at:].split("\n")[0].split("/")[2]
                    found.setdefault(name, []).append(int(pid))
        return found

    def stop_execd(self):
        """Some of them at once; they go on a few seconds later."""
        stopped = []
        for sandbox, pids in self._some_sandboxes():
            for pid in pids:
                with contextlib.suppress(OSError, StopIteration):
                    with open(f"/proc/{pid}/status") as status:
                        ids = next(line for line in status if line.startswith("NSpid:")).split()
                    if ids[-1] == "1":
                        os.kill(pid, signal.SIGSTOP)
                        stopped.append(pid)
        self._ending.wait(self._rng.uniform(1, 6))
        for pid in stopped:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGCONT)
        return {"sandboxes": len(stopped)}

    def _some_sandboxes(self):
        everything = sorted(self._processes().items())
        return self._rng.sample(everything, min(len(everything), self._rng.randrange(1, 12)))

    def freeze_sandbox(self):
        """By its cgroup, from outside: sandboxd does not know of it."""
        frozen = []
        for sandbox, _ in self._some_sandboxes():
            shown = self._world.daemon.client.get(f"/v1/sandboxes/{sandbox}")
            if shown.status_code == 200 and shown.json()["state"] == "running" and self._freeze(sandbox, True):
                frozen.append(sandbox)
        self._ending.wait(self._rng.uniform(1, 6))
        for sandbox in frozen:
            shown = self._world.daemon.client.get(f"/v1/sandboxes/{sandbox}")
            if shown.status_code == 200 and shown.json()["state"] == "running":
                self._freeze(sandbox, False)
        return {"sandboxes": len(frozen)}

    def _freeze(self, sandbox, frozen):
        parent = self._world.daemon.cgroup_parent
        with contextlib.suppress(OSError):
            v1 = pathlib.Path(f"/sys/fs/cgroup/freezer/{parent}/{sandbox}/freezer.state")
            if v1.exists():
                v1.write_text("FROZEN" if frozen else "THAWED")
            else:
                pathlib.Path(f"/sys/fs/cgroup/{parent}/{sandbox}/cgroup.freeze").write_text(str(int(frozen)))
            return True
        return False

    def hostile_tenant(self):
        """Takes one thing after the other, in an order of his own, then all again."""
        if not self._greed:
            self._greed = self._rng.sample(sorted(PROGRAMS), len(PROGRAMS))
        tenant = Tenant(self._world.server, {"resourceLimits": {"cpu": "1", "memory": "128Mi"}})
        wanted = self._greed.pop()
        try:
            tenant.exhaust(wanted, self._rng.randrange(2, 6))
        finally:
            tenant.leave()
        begin = time.monotonic()
        self._world.wait_ready(RECOVERY)
        return {"wanted": wanted, "s": round(time.monotonic() - begin, 3)}

    # --- the rest of the world

    def set_clock(self):
        to = self._rng.choice([0, self._rng.randrange(60, MOST_JUMP), -self._rng.randrange(60, MOST_JUMP)])
        by = to - self._world.offset
        self._world.set_clock(to)
        return {"to": to, "by": by}

    def fill_disk(self):
        self._world.disk.fill()
        self._ending.wait(self._rng.uniform(3, 8))
        begin = time.monotonic()
        self._world.disk.relieve()
        self._world.wait_ready(RECOVERY)
        return {"s": round(time.monotonic() - begin, 3)}

    def kill_on_full_disk(self):
        """Whether they start on a full disk is their business; they start once there is room again."""
        self._world.disk.fill()
        self._ending.wait(self._rng.uniform(1, 3))
        self._world.server.kill()
        self._world.daemon.kill()
        started = True
        try:
            self._world.daemon.start()
        except RuntimeError:
            started = False
        self._ending.wait(self._rng.uniform(1, 3))
        self._world.disk.relieve()
        return {"sandboxd started on it": started, **self._start(server=True, daemon=not started)}
