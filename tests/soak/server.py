#!/usr/bin/env python3
"""kill -9 of the server at random moments under load, again and again: every answered promise holds afterwards.

    SERVER_BINARY=.. SANDBOXD_BINARY=.. EXECD_BINARY=.. tests/privileged/in_namespace build/venv/bin/python
        tests/soak/server.py [--rounds 200] [--minutes 60] [--seed N]

Needs root. A few clients create, renew, patch, pause, resume, snapshot and delete; each remembers what it was answered,
and of requests whose answer was lost it remembers both outcomes. After each restart:

  - every create that was answered is there; one whose answer was lost exists once when it is repeated with its key,
  - deadlines, metadata, pauses and tokens are as answered; what was deleted stays deleted,
  - nothing lives past its deadline, also when that passed while the server was down,
  - snapshots are Ready, or Failed with a reason,
  - sandboxd has exactly the sandboxes that the server has.

Sandboxes go on into the next rounds. Exit status 1 means that a promise was broken; the seed repeats the same requests.
"""

import argparse
import contextlib
import datetime
import http.client
import json
import pathlib
import random
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from sandboxd_process import Sandboxd  # noqa: E402
from server_process import KEY_HEADER, Server  # noqa: E402

CLIENTS = 6
KEPT = 12  # sandboxes that go on into the next round
LATE = 1.0  # seconds; what the server promises
SETTLE = 60  # seconds; more is a hang

STABLE = {"Running", "Paused", "Failed", "Terminated"}


class Lost(Exception):
    """The server went before it answered."""


def now():
    return datetime.datetime.now(datetime.timezone.utc)


def moment(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


class Known:
    """The promises about one sandbox. More than one value: the answer to the change was lost."""

    def __init__(self, key, body):
        self.key = key
        self.body = body
        self.id = None  # None: the answer to the create was lost
        self.metadata = [body["metadata"]]
        self.deadlines = []
        self.states = {"Running"}
        self.gone = [False]
        self.snapshots = []

    @property
    def ends_soon(self):
        return any(deadline < now() + datetime.timedelta(seconds=30) for deadline in self.deadlines)


class Load:
    """The clients of one round. The one that sends request number `fatal` sets `struck`."""

    def __init__(self, server, seed, known, fatal):
        self.server = server
        self.known = known  # of each client
        self.fatal = fatal
        self.sent = self.lost = 0
        self.lock = threading.Lock()
        self.struck = threading.Event()
        self.failures = []
        self.threads = [threading.Thread(target=self._run, args=(number, random.Random(f"{seed}/{number}")))
                        for number in range(CLIENTS)]

    def start(self):
        for thread in self.threads:
            thread.start()

    def join(self):
        for thread in self.threads:
            thread.join()
        if self.failures:
            raise self.failures[0]

    def _run(self, number, rng):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=SETTLE)
        try:
            while True:
                self._step(connection, rng, number)
        except Lost:
            pass
        except Exception as failure:  # any of them ends the run
            self.failures.append(failure)
        finally:
            connection.close()
            self.struck.set()

    def _request(self, connection, method, path, body=None, headers=None):
        """(status, JSON). The counting comes after the sending: the kill then falls into the work."""
        data = None if body is None else json.dumps(body)
        try:
            connection.request(method, f"/v1{path}", data, {KEY_HEADER: self.server.key, **(headers or {})})
            with self.lock:
                self.sent += 1
                if self.sent == self.fatal:
                    self.struck.set()
            response = connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException) as failure:
            with self.lock:
                self.lost += 1
            raise Lost from failure
        return response.status, json.loads(text) if text else None

    def _step(self, connection, rng, number):
        mine = self.known[number]
        usable = [each for each in mine if each.id and each.gone == [False] and not each.ends_soon]
        if len(usable) < 3 or rng.random() < 0.3:
            key = f"key-{rng.getrandbits(64):x}"
            body = {"image": {"uri": "host"}, "entrypoint": ["tail", "-f", "/dev/null"], "resourceLimits": {},
                    "timeout": rng.randrange(600, 6000), "metadata": {"key": key}}
            sandbox = Known(key, body)
            mine.append(sandbox)
            create(lambda *a: self._request(connection, *a), sandbox, wait=rng.random() < 0.7)
            return
        sandbox = rng.choice(usable)
        change = rng.choice([renew, renew, patch, patch, freeze, delete, delete, expire, snapshot])
        change(lambda *a: self._request(connection, *a), sandbox, rng)


# --- requests and what they promise. `request(method, path, body, headers)` raises Lost.


def create(request, sandbox, wait):
    status, made = request("POST", f"/sandboxes{'?wait=30' if wait else ''}", sandbox.body,
                           {"Idempotency-Key": sandbox.key})
    assert status == 202, f"create: {status} {made}"
    assert not wait or made["status"]["state"] == "Running", made
    sandbox.id = made["id"]
    sandbox.deadlines = [moment(made["expiresAt"])]


def move_deadline(request, sandbox, until):
    before = sandbox.deadlines
    sandbox.deadlines = [*before, until]
    status, answer = request("POST", f"/sandboxes/{sandbox.id}/renew-expiration", {"expiresAt": until.isoformat()})
    assert status == 200 and moment(answer["expiresAt"]) == until, f"renew to {until}: {status} {answer}"
    sandbox.deadlines = [until]


def renew(request, sandbox, rng):
    move_deadline(request, sandbox, now() + datetime.timedelta(seconds=rng.randrange(600, 6000)))


def expire(request, sandbox, rng):
    move_deadline(request, sandbox, now() + datetime.timedelta(seconds=rng.uniform(0.3, 2)))


def patch(request, sandbox, rng):
    wanted = {**sandbox.metadata[0], f"p{rng.randrange(4)}": str(rng.getrandbits(32))}
    sandbox.metadata = [sandbox.metadata[0], wanted]
    status, answer = request("PATCH", f"/sandboxes/{sandbox.id}/metadata", wanted)
    assert status == 200 and answer["metadata"] == wanted, f"patch: {status} {answer}"
    sandbox.metadata = [wanted]


def freeze(request, sandbox, rng):
    if len(sandbox.states) > 1:
        return
    state, = sandbox.states
    # A sandbox that is still being created cannot be paused.
    request("GET", f"/sandboxes/{sandbox.id}?wait=30")
    sandbox.states = {"Running", "Paused"}
    status, answer = request("POST", f"/sandboxes/{sandbox.id}/{'pause' if state == 'Running' else 'resume'}")
    assert status == 202, f"pause or resume of {sandbox.id}, {state}: {status} {answer}"
    sandbox.states = {"Paused" if state == "Running" else "Running"}


def delete(request, sandbox, rng):
    sandbox.gone = [False, True]
    status, answer = request("DELETE", f"/sandboxes/{sandbox.id}")
    assert status == 204, f"delete of {sandbox.id}: {status} {answer}"
    sandbox.gone = [True]


def snapshot(request, sandbox, rng):
    if sandbox.snapshots or sandbox.states != {"Running"}:
        return
    request("GET", f"/sandboxes/{sandbox.id}?wait=30")
    status, answer = request("POST", f"/sandboxes/{sandbox.id}/snapshots", {"name": f"of-{sandbox.key}"})
    assert status == 202, f"snapshot of {sandbox.id}: {status} {answer}"
    sandbox.snapshots.append(answer["id"])


# --- after the restart


def wait_ready(server):
    """The server listens before it has heard from sandboxd."""
    limit = time.monotonic() + SETTLE
    while (response := server.client.get("/health/ready")).status_code != 200:
        assert time.monotonic() < limit, response.text


def settled(server, id):
    """The sandbox as soon as it is in a state that lasts, or None: gone."""
    with server.client.stream("GET", f"/v1/sandboxes/{id}", params={"watch": "true"}, timeout=SETTLE) as stream:
        if stream.status_code == 404:
            return None
        assert stream.status_code == 200, stream.read()
        for line in stream.iter_lines():
            event = json.loads(line) if line else {"type": "none"}
            if event["type"] == "deleted":
                return None
            if event["type"] == "state" and event["sandbox"]["status"]["state"] in STABLE:
                return event["sandbox"]
    raise AssertionError(f"the events of {id} ended")


def wait_gone(server, id):
    """When the sandbox had gone."""
    with server.client.stream("GET", f"/v1/sandboxes/{id}", params={"watch": "true"}, timeout=SETTLE) as stream:
        if stream.status_code == 404:
            return now()
        for line in stream.iter_lines():
            if line and json.loads(line)["type"] == "deleted":
                return now()
    raise AssertionError(f"the events of {id} ended")


def check(server, sandbox, up_since):
    """Compares what there is with what was promised, and makes what there is the new promise."""
    shown = settled(server, sandbox.id)
    passed = min(sandbox.deadlines) <= now()
    if shown is None:
        assert True in sandbox.gone or passed, f"{sandbox.id} is lost: {vars(sandbox)}"
        sandbox.gone = [True]
        return
    assert False in sandbox.gone, f"{sandbox.id} was deleted and is back: {shown}"
    sandbox.gone = [False]
    assert shown["status"]["state"] in sandbox.states, f"{shown['status']}, promised {sandbox.states}"
    assert shown["metadata"] in sandbox.metadata, f"{shown['metadata']}, promised {sandbox.metadata}"
    assert moment(shown["expiresAt"]) in sandbox.deadlines, f"{shown['expiresAt']}, promised {sandbox.deadlines}"
    # A pause or resume whose answer was lost may still be under way in the backend: both states stay possible.
    sandbox.metadata = [shown["metadata"]]
    sandbox.deadlines = [moment(shown["expiresAt"])]
    if sandbox.ends_soon:
        gone = wait_gone(server, sandbox.id)
        due = max(sandbox.deadlines[0], up_since)
        late = (gone - due).total_seconds()
        assert gone >= sandbox.deadlines[0], f"{sandbox.id} went {-late:.3f} s early"
        assert late < LATE, f"{sandbox.id} went {late:.3f} s late"
        sandbox.gone = [True]


def check_snapshot(server, id):
    shown = server.client.get(f"/v1/snapshots/{id}", params={"wait": SETTLE}).json()
    assert shown["status"]["state"] != "Creating", shown
    assert shown["status"]["state"] == "Ready" or shown["status"]["reason"], shown
    response = server.client.delete(f"/v1/snapshots/{id}")
    assert response.status_code == 204, response.text


def wait_same(server, ids):
    """Until the backend has exactly these sandboxes; what was taken from the records goes there a moment later."""
    present = server.daemon.wait_for_exactly(ids, SETTLE)
    assert present == ids, f"leaked in the backend: {present - ids}; missing there: {ids - present}"


def direct(server):
    """`request` of the functions above, over the server's own client."""

    def request(method, path, body=None, headers=None):
        # Repeated creates have to be the same bytes.
        data = None if body is None else json.dumps(body)
        response = server.client.request(method, f"/v1{path}", content=data, headers=headers)
        return response.status_code, response.json() if response.content else None

    return request


def round_of(server, seed, number, known):
    """One kill and everything that must hold after it."""
    rng = random.Random(f"{seed}/{number}")
    load = Load(server, f"{seed}/{number}", known, fatal=rng.randrange(1, 120))
    load.start()
    assert load.struck.wait(SETTLE), "the clients hang"
    time.sleep(rng.uniform(0, 0.02))  # not a wait: the moment of the kill is the random part
    server.kill()
    load.join()
    up_since = now()
    server.start()
    wait_ready(server)
    request = direct(server)
    everything = [sandbox for mine in known for sandbox in mine]
    for sandbox in everything:
        if sandbox.id is None:
            create(request, sandbox, wait=True)
            found = request("GET", f"/sandboxes?metadata=key%3D{sandbox.key}")[1]["items"]
            assert [each["id"] for each in found] == [sandbox.id], f"made twice: {found}"
        check(server, sandbox, up_since)
        for id in sandbox.snapshots:
            check_snapshot(server, id)
        sandbox.snapshots.clear()
    living = [sandbox for sandbox in everything if sandbox.gone == [False]]
    running = [sandbox for sandbox in living if sandbox.states == {"Running"}]
    for sandbox in rng.sample(running, min(2, len(running))):
        assert server.run(sandbox.id, f"echo {sandbox.key}") == sandbox.key
    for sandbox in rng.sample(living, max(0, len(living) - KEPT)):
        delete(request, sandbox, rng)
    for mine in known:
        mine[:] = [sandbox for sandbox in mine if sandbox.gone == [False]]
    ids = {sandbox.id for mine in known for sandbox in mine}
    listed = request("GET", "/sandboxes?pageSize=200")[1]["items"]
    assert {each["id"] for each in listed} == ids, "the list is not what was promised"
    wait_same(server, ids)
    return load.sent, load.lost


def run(server, rounds, seed, minutes=60):
    """Raises AssertionError if a promise was broken; otherwise returns the figures."""
    known = [[] for _ in range(CLIENTS)]
    sent = lost = done = 0
    until = time.monotonic() + minutes * 60
    for number in range(rounds):
        if time.monotonic() > until:
            break
        try:
            counts = round_of(server, seed, number, known)
            sent, lost, done = sent + counts[0], lost + counts[1], done + 1
        except Exception as failure:
            raise AssertionError(f"round {number} of seed {seed}: {failure!r}") from failure
    server.remove_all()
    wait_same(server, set())
    return {"rounds": done, "requests under load": sent, "answers lost": lost, "seed": seed}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().getrandbits(32)
    print(f"seed {seed}", flush=True)
    daemon = Sandboxd(settings={"daemon": {"log_level": "warn"}})
    server = Server(daemon)
    try:
        print(json.dumps(run(server, options.rounds, seed, options.minutes)))
        return 0
    except AssertionError as failure:
        print(failure, server.log()[-6000:], daemon.log()[-2000:], sep="\n", file=sys.stderr)
        return 1
    finally:
        with contextlib.suppress(Exception):
            server.close()
        daemon.close()


if __name__ == "__main__":
    sys.exit(main())
