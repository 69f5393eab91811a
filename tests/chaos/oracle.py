"""After the last fault: is everything there that was promised, and nothing that was not?"""

import collections
import concurrent.futures
import contextlib
import os
import random
import time

import host_state
from api import Api, Lost, Refused, Truncated
from checks import Broken, check_background, check_end, check_file, check_served, compare, may_be_gone
from stream import Stream
from world import READY_SLOTS

SETTLE = 120  # seconds; more is a hang
ENOUGH_TRIES = 5  # of an operation; fewer may all have met a fault
# Of a daemon that has had 50 clients; both start below 30 MiB.
MOST_RSS_KIB = 200 * 1024
# Descriptors that a program holds which has nothing to do: listeners, store, event loop, pool of slots.
MOST_DESCRIPTORS = {"server": 64, "sandboxd": 64 + 4 * 4 * READY_SLOTS}

PROMISES = {
    "sandboxes": "a sandbox is there until it is deleted or past its time; one that could not be made says why",
    "deadlines": "no sandbox ends before its time or lives past it, however the server's clock is set",
    "metadata": "metadata are as answered",
    "states": "pauses and resumes are as answered",
    "files": "a file whose upload was answered reads back",
    "commands": "commands, background commands and sessions say what they have to say",
    "streams": "numbered lines come without holes, up to the last event or to an error that can be seen",
    "snapshots": "a snapshot that is accepted gets ready or says why not; a ready one restores what was in it",
    "traffic": "what listens in a sandbox answers through the proxy and directly",
    "wakes": "a request to an idle, paused sandbox reaches it once; one that the wake refuses, never",
    "answers": "requests are answered, not with an error that blames the client; no operation fails every time",
    "recovery": "after each fault the server is ready again",
    "leaks": "nothing is left: processes, mounts, namespaces, interfaces, cgroups, firewall, files, descriptors, memory",
}


def broken_by_all(tally, faults, begin, minutes):
    """Promises that no single request breaks: (promise, text) of events that were lost with room on the disk, and of
    operations that
    a run which is long enough has never seen succeed."""
    full = [(begin + each["at"], begin + each["until"]) for each in faults if "disk" in each["fault"]]
    broken = [("streams", f"events are gone, and the disk was not full: {gap}") for gap in tally.gaps
              if not any(gap["from"] <= until and at <= gap["to"] for at, until in full)]
    if minutes < 1:
        return broken
    operations = tally.operations()
    for name, row in operations.items():
        if row["done"] == 0 and sum(row["errors"].values()) >= ENOUGH_TRIES:
            broken.append(("answers", f"{name} never succeeded: {row['errors']}"))
    if not any(row["done"] for row in operations.values()):
        broken.append(("answers", f"nothing ever succeeded: {operations}"))
    return broken


class Oracle:
    def __init__(self, world, sandboxes, snapshots):
        self._world = world
        self._sandboxes, self._snapshots = sandboxes, snapshots
        self.broken = []  # (promise, text)
        self.figures = {"sandboxes promised": 0, "found": 0, "not made, with a reason": 0, "deleted or expired": 0,
                        "files compared": 0, "background commands ended": 0, "listeners asked": 0,
                        "streams": 0, "snapshots restored": 0, "snapshots failed with a reason": 0}
        self.ended = []

    def run(self):
        self.check_promises()
        self._check_list()
        self._remove_everything()
        self._use_the_proxy_again()
        self.figures |= Leaks(self._world, self.broken).check()

    def check_promises(self):
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(self._guarded(self._check_sandbox), self._sandboxes))
            list(pool.map(self._guarded(self._check_snapshot), self._snapshots))

    def _api(self):
        return Api(self._world.server.port, self._world.server.key)

    def _guarded(self, check):
        def checked(what):
            api = self._api()
            try:
                check(api, what)
            except Broken as broken:
                self.broken.append((broken.promise, broken.text))
            except Truncated as truncated:
                self.broken.append(("streams", str(truncated)))
            except (Lost, Refused) as failure:
                shown = what.as_json() if hasattr(what, "key") else what
                self.broken.append(("answers", f"with no fault around: {failure!r}, {shown}"))
            finally:
                api.close()
        return checked

    def _note_end(self, known):
        self.ended.append(" ".join(str(known.ended.get(name)) for name in ("state", "reason", "message")))
        check_end(known)
        self.figures["not made, with a reason"] += 1

    def _check_sandbox(self, api, known):
        if known.id is None and known.gone == [True]:
            return  # refused, and judged by its client
        if known.id is None:
            # The answer was lost. Its key finds it, or makes it now; there must not be two.
            made = api.call("POST", "/sandboxes?wait=60", known.body, {"Idempotency-Key": known.key}, ok=(202,))
            known.note_created(made)
            found = api.call("GET", f"/sandboxes?metadata=key%3D{known.key}")["items"]
            if [each["id"] for each in found] not in ([known.id], []):
                raise Broken("sandboxes", f"made twice: {found}")
        self.figures["sandboxes promised"] += 1
        if known.ended:
            self._note_end(known)
            return
        try:
            shown = api.call("GET", f"/sandboxes/{known.id}?wait=60")
        except Refused as refused:
            if refused.status != 404:
                raise
            if not may_be_gone(known):
                early = known.alive_until - time.time()
                raise Broken("sandboxes", f"{known.id} is lost, {early:.0f} s before its time: {known.as_json()}") from None
            self.figures["deleted or expired"] += 1
            known.gone = [True]
            return
        if known.gone == [True]:
            raise Broken("sandboxes", f"{known.id} was deleted and is back: {shown}")
        if known.gone == [False] and time.time() > known.gone_after + SETTLE:
            raise Broken("deadlines", f"{known.id} lives {time.time() - known.gone_after:.0f} s past its time: {shown}")
        known.note_status(shown["status"])
        if known.ended:
            self._note_end(known)
            return
        self.figures["found"] += 1
        limit = time.monotonic() + SETTLE
        while shown["status"]["state"] not in ("Running", "Paused"):
            if time.monotonic() > limit:
                raise Broken("states", f"{known.id} stays {shown['status']}")
            time.sleep(0.2)
            shown = api.call("GET", f"/sandboxes/{known.id}")
        compare(known, shown)
        try:
            if shown["status"]["state"] == "Paused":
                api.call("POST", f"/sandboxes/{known.id}/resume", ok=(202,))
            self._look_inside(api, known)
        except (Lost, Refused) as failure:
            if not may_be_gone(known) or failure.kind == "hang":
                raise

    def _look_inside(self, api, known):
        code, output = api.run(known.id, f"echo {known.key}")
        if (code, output) != (0, known.key):
            raise Broken("commands", f"echo {known.key}: {code} {output!r}")
        for path in known.files:
            check_file(api, known, path, "snapshots" if "snapshotId" in known.body else "files")
            self.figures["files compared"] += 1
        if known.session is not None:
            code, output = api.run(known.id, 'echo "was:$KEPT"', f"/session/{known.session}/run")
            if code != 0 or output.strip() not in [f"was:{each}" for each in known.session_values]:
                raise Broken("commands", f"session {known.session}: {code} {output!r}, set to one of {known.session_values}")
        for id in list(known.background):
            limit = time.monotonic() + SETTLE
            while not check_background(api, known, id):
                if time.monotonic() > limit:
                    raise Broken("commands", f"background {id} of {known.id} does not end")
                time.sleep(0.2)
            self.figures["background commands ended"] += 1
        if known.serving is not None:
            check_served(api, known, direct=False)
            check_served(api, known, direct=True)
            self.figures["listeners asked"] += 1
        Stream(api, random.Random(known.key), known).follow()
        self.figures["streams"] += 1

    def _check_snapshot(self, api, snapshot):
        if snapshot["state"] in ("deleted", "deleting", "lost"):
            return
        shown = api.call("GET", f"/snapshots/{snapshot['id']}?wait={SETTLE}")["status"]
        if shown["state"] == "Failed" and snapshot["state"] != "Ready" and shown.get("reason"):
            self.figures["snapshots failed with a reason"] += 1
            return
        if shown["state"] != "Ready":
            raise Broken("snapshots", f"{snapshot['id']}: {shown}, was {snapshot['state']}")
        made = api.call("POST", "/sandboxes?wait=60", {
            "snapshotId": snapshot["id"], "entrypoint": ["tail", "-f", "/dev/null"], "timeout": 600,
            "resourceLimits": {"cpu": "1", "memory": "128Mi"}}, ok=(202,))
        if made["status"]["state"] != "Running":
            raise Broken("snapshots", f"{snapshot['id']} is not restored: {made['status']}")
        restored = type("Restored", (), {"id": made["id"], "files": {p: [s] for p, s in snapshot["files"].items()}})
        for path in restored.files:
            check_file(api, restored, path, "snapshots")
            self.figures["files compared"] += 1
        self.figures["snapshots restored"] += 1
        api.call("DELETE", f"/sandboxes/{made['id']}", ok=(204,))

    def _check_list(self):
        """No sandbox exists that no client asked for."""
        api = self._api()
        ids = {known.id for known in self._sandboxes}
        page, shown = 1, []
        while items := api.call("GET", f"/sandboxes?pageSize=100&page={page}")["items"]:
            shown += items
            page += 1
        api.close()
        for each in shown:
            if each["id"] not in ids:
                self.broken.append(("sandboxes", f"no client asked for it: {each}"))

    def _remove_everything(self):
        api = self._api()
        while items := api.call("GET", "/sandboxes?pageSize=100")["items"]:
            for each in items:
                with contextlib.suppress(Refused):
                    api.call("DELETE", f"/sandboxes/{each['id']}")
        while items := api.call("GET", "/snapshots?pageSize=100")["items"]:
            for each in items:
                api.call("DELETE", f"/snapshots/{each['id']}")
        api.close()
        self._wait_for_nothing()

    def _wait_for_nothing(self):
        left = self._world.daemon.wait_for_exactly(set(), SETTLE)
        if left:
            self.broken.append(("leaks", f"sandboxes in the backend: {left}"))

    def _use_the_proxy_again(self):
        """Connections to sandboxes that are gone are closed by requests that come some seconds later."""
        api = self._api()
        made = api.call("POST", "/sandboxes?wait=60", {
            "image": {"uri": "host"}, "entrypoint": ["tail", "-f", "/dev/null"], "timeout": 600,
            "resourceLimits": {"cpu": "1", "memory": "128Mi"}}, ok=(202,))
        limit = time.monotonic() + SETTLE
        pid = self._world.server.process.pid
        while len(host_state.descriptors(pid)) > MOST_DESCRIPTORS["server"] and time.monotonic() < limit:
            api.run(made["id"], "true")
            time.sleep(1)
        api.call("DELETE", f"/sandboxes/{made['id']}", ok=(204,))
        api.close()
        self._wait_for_nothing()


def kinds(pid):
    """How many descriptors of each kind."""
    return dict(collections.Counter(what.split(":")[0] for what in host_state.descriptors(pid).values()))


class Leaks:
    """The host and the two programs, with nothing to do."""

    def __init__(self, world, broken):
        self._world = world
        self._broken = broken

    def check(self):
        daemon, server = self._world.daemon, self._world.server
        pids = {"server": server.process.pid, "sandboxd": daemon.pid}
        # sandboxd prepares slots and roots for a moment after the last request.
        wrong = self._until(lambda: self._host() + [
            f"{name} has {len(host_state.descriptors(pid))} descriptors: {kinds(pid)}"
            for name, pid in pids.items() if len(host_state.descriptors(pid)) > MOST_DESCRIPTORS[name]])
        rss = {name: host_state.rss_kib(pid) for name, pid in pids.items()}
        wrong += [f"{name} has {kib} KiB" for name, kib in rss.items() if kib > MOST_RSS_KIB]
        self._broken += [("leaks", each) for each in wrong]
        return {f"{name} rss KiB": kib for name, kib in rss.items()} | {
            f"{name} descriptors": len(host_state.descriptors(pid)) for name, pid in pids.items()} | {
            "used on the disk KiB": self._used() // 1024}

    def after_the_end(self):
        """When both have been stopped in order, nothing at all is left."""
        wrong = self._until(lambda: [f"interface {name}" for name in host_state.interfaces()])
        wrong += [f"process {pid}" for pid in host_state.processes(self._world.daemon)]
        wrong += [f"cgroup {name}" for name in host_state.cgroups(self._world.daemon)]
        self._broken += [("leaks", f"after the end: {each}") for each in wrong]

    def _used(self):
        usage = os.statvfs(self._world.disk.place)
        return (usage.f_blocks - usage.f_bfree) * usage.f_frsize

    def _host(self):
        daemon = self._world.daemon
        found = [f"process {pid}" for pid in host_state.processes(daemon)]
        found += [f"cgroup {path}" for path in host_state.cgroups(daemon)]
        for what, names in host_state.files(daemon).items():
            found += [f"{what}: {name}" for name in names]
        kept = 4 * READY_SLOTS + 2  # those in the pool, and what the next root was prepared with
        for what, names in (("interfaces", host_state.interfaces()), ("firewall members", host_state.member_interfaces()),
                            ("network namespaces", host_state.network_namespaces(daemon.pid))):
            if len(names) > kept:
                found.append(f"{len(names)} {what}, at most {kept} are kept ready")
        stray = host_state.member_interfaces() - host_state.interfaces()
        found += [f"firewall member without an interface: {name}" for name in stray]
        mounts = [mount for mount in host_state.mounts(daemon.pid) if str(daemon.state) in mount]
        if len(mounts) > 1 + 2:
            found.append(f"mounts of sandboxd: {mounts}")
        return found

    def _until(self, wrong, seconds=30):
        limit = time.monotonic() + seconds
        while (found := wrong()) and time.monotonic() < limit:
            time.sleep(0.2)
        return found
