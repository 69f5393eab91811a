#!/usr/bin/env python3
"""One client: does this and that with a few sandboxes of its own until it is told to end (SIGTERM) or killed, and notes
what it was promised in its journal. Started again with the same journal it goes on where the last one was.

    client.py PORT KEY JOURNAL SEED
"""

import json
import os
import random
import signal
import sys
import time

from api import Api, Lost, Refused, Truncated
from checks import Broken, check_background, check_file, check_served, compare, digest, may_be_gone, stamp
from known import NOTHING, Journal, Known, load, moment
from stream import Stream

AT_MOST = 2  # sandboxes
LATE = 30  # seconds that a busy machine may take to remove what is past its deadline
MOST_JUMP = 900  # seconds that the server's clock is set forward or back


class Client:
    def __init__(self, port, key, journal, seed):
        self.api = Api(port, key)
        self.rng = random.Random(seed)
        self.sandboxes, self.snapshots = load(journal)
        self.journal = Journal(journal)
        self.ending = False
        self.made = None  # by the present step
        # Steps that need a running sandbox.
        self.inside = (self.command, self.background, self.check_background, self.stream, self.upload, self.download,
                       self.session, self.traffic, self.pause, self.resume)

    # --- one after the other

    def run(self):
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "ending", True))
        parent = os.getppid()
        while not self.ending and os.getppid() == parent:
            self.step()
            time.sleep(self.rng.uniform(0, 0.4))

    def step(self):
        action, known = self.choose()
        begin = time.monotonic()
        self.made = None
        try:
            outcome = action(known) or "done"
        except Lost as lost:
            outcome = lost.kind
            if outcome == "gap":
                self.journal.gap(known.id, begin, time.monotonic())
            if outcome == "hang":
                self.journal.broken("answers", f"{action.__name__}: no answer, {vars(known) if known else ''}")
            time.sleep(0.1)
        except Refused as refused:
            outcome = refused.kind
            self.judge(action, known or self.made, refused)
        except Truncated as truncated:
            outcome = "truncated"
            self.journal.broken("streams", f"{known.id}: {truncated}")
        except Broken as broken:
            outcome = "broken promise"
            self.journal.broken(broken.promise, f"{known.id if known else ''} {broken.text}")
        self.journal.op(action.__name__, outcome, time.monotonic() - begin)
        if outcome == "done" and action in self.inside and not known.ran:
            known.ran = True
            self.journal.sandbox(known)

    def choose(self):
        here = [each for each in self.sandboxes.values() if each.is_here]
        unsure = [each for each in self.sandboxes.values() if each.id is None and each.gone == [False]]
        if unsure:
            return self.create, unsure[0]
        late = [each for each in here if time.time() > each.gone_after + LATE]
        if late:
            return self.expired, late[0]
        if any(True in each.gone and False in each.gone for each in self.sandboxes.values()):
            return self.delete, next(e for e in self.sandboxes.values() if True in e.gone and False in e.gone)
        if len(here) < AT_MOST:
            ready = [each for each in self.snapshots.values() if each["state"] == "Ready"]
            if ready and self.rng.random() < 0.4:
                return self.restore, None
            return self.create_another, None
        known = self.rng.choice(here)
        if known.states == ["Paused"]:
            return self.rng.choice([self.resume, self.resume, self.renew, self.patch, self.look]), known
        if len(known.states) > 1:
            return self.look, known  # until it is one of them
        actions = {self.command: 5, self.background: 2, self.check_background: 2, self.stream: 4, self.upload: 4,
                   self.download: 4, self.session: 3, self.pause: 1, self.renew: 2, self.patch: 2, self.snapshot: 1,
                   self.traffic: 3, self.look: 2, self.list: 1, self.delete: 1, self.drop_snapshot: 1}
        return self.rng.choices(list(actions), list(actions.values()))[0], known

    def judge(self, action, known, refused):
        """Errors of the server and its backend are answers too; those that say that the client is wrong are not."""
        if refused.status >= 500 or refused.status == 429:
            time.sleep(0.1)
            return
        if known is not None and refused.status == 404 and may_be_gone(known):
            known.gone = [True]
            self.journal.sandbox(known)
            return
        if refused.status in (404, 409) and known is not None and self.has_ended(known):
            return
        self.journal.broken("sandboxes" if refused.status == 404 else "answers",
                            f"{action.__name__}: {refused}; {known.as_json() if known else None}")
        if known is not None and (known.id is None or refused.status == 404):
            known.gone = [True]  # said once
            self.journal.sandbox(known)

    def has_ended(self, known):
        """Whether it says that it has ended. Why is judged at the end of the run."""
        try:
            status = self.api.call("GET", f"/sandboxes/{known.id}")["status"]
        except (Lost, Refused):
            return False
        known.note_status(status)
        self.journal.sandbox(known)
        return known.ended is not None

    # --- lifecycle

    def create_another(self, _):
        return self.create(self.note_new({"image": {"uri": "host"}}))

    def note_new(self, source, files=None):
        key = f"key-{self.rng.getrandbits(64):x}"
        timeout = self.rng.randrange(60, 150) if self.rng.random() < 0.3 else self.rng.randrange(1200, 3600)
        body = {**source, "entrypoint": ["tail", "-f", "/dev/null"], "timeout": timeout, "metadata": {"key": key},
                "resourceLimits": {"cpu": "1", "memory": "128Mi"}}
        known = Known(key=key, body=body, metadata=[{"key": key}], files=files or {}, first_sent=time.time())
        self.sandboxes[key] = self.made = known
        self.journal.sandbox(known)
        return known

    def create(self, known):
        wait = self.rng.random() < 0.7
        made = self.api.call("POST", f"/sandboxes{'?wait=30' if wait else ''}", known.body,
                             {"Idempotency-Key": known.key}, ok=(202,))
        known.note_created(made)
        self.journal.sandbox(known)
        return f"Failed {known.ended.get('reason')}" if known.ended else None

    def restore(self, _):
        snapshot = self.rng.choice([each for each in self.snapshots.values() if each["state"] == "Ready"])
        files = {path: [sha] for path, sha in snapshot["files"].items()}
        known = self.note_new({"snapshotId": snapshot["id"]}, files)
        if failed := self.create(known):
            return failed
        for path in list(files)[:2]:
            check_file(self.api, known, path, "snapshots")

    def expired(self, known):
        try:
            shown = self.api.call("GET", f"/sandboxes/{known.id}")
        except Refused as refused:
            if refused.status != 404:
                raise
            known.gone = [True]
            self.journal.sandbox(known)
            return
        known.gone = [False, True]  # once is enough
        self.journal.sandbox(known)
        raise Broken("deadlines", f"{time.time() - known.gone_after:.1f} s late: {shown}")

    def look(self, known):
        shown = self.api.call("GET", f"/sandboxes/{known.id}?wait=20")
        known.note_status(shown["status"])
        self.journal.sandbox(known)
        if known.ended:
            return
        compare(known, shown)
        known.states = [shown["status"]["state"]] if shown["status"]["state"] in known.states else known.states
        known.metadata = [shown["metadata"]]
        known.deadlines = [shown["expiresAt"]]
        self.journal.sandbox(known)

    def list(self, known):
        shown = self.api.call("GET", f"/sandboxes?pageSize=10&metadata=key%3D{known.key}")["items"]
        if [each["id"] for each in shown] != [known.id] and not may_be_gone(known):
            raise Broken("sandboxes", f"listed for its key: {shown}")

    def delete(self, known):
        known.gone = [False, True]
        self.journal.sandbox(known)
        try:
            self.api.call("DELETE", f"/sandboxes/{known.id}", ok=(204,))
        except Refused as refused:
            if refused.status != 404:
                raise
        known.gone = [True]
        self.journal.sandbox(known)

    def pause(self, known):
        return self.move(known, "pause", "Paused")

    def resume(self, known):
        return self.move(known, "resume", "Running")

    def move(self, known, verb, to):
        self.api.call("GET", f"/sandboxes/{known.id}?wait=30")  # one that is being created cannot be paused
        before, known.states = known.states, ["Running", "Paused"]
        self.journal.sandbox(known)
        try:
            self.api.call("POST", f"/sandboxes/{known.id}/{verb}", ok=(202,))
        except Refused as refused:
            if refused.status != 409 or "is Pending" not in str(refused):
                raise
            known.states = before  # the backend has not come to it yet
            self.journal.sandbox(known)
            return "still Pending"
        known.states = [to]
        self.journal.sandbox(known)

    def renew(self, known):
        # However the clock is set, it lives on for a while: else nothing could be said about it any more.
        left = self.rng.uniform(2 * MOST_JUMP + 900, 2 * MOST_JUMP + 3600)
        until = stamp(time.time() + self.api.offset + left)
        old = known.deadlines, known.alive_until, known.gone_after
        known.deadlines = [*known.deadlines, until]
        # Set by a clock that may have been moved since it was read.
        known.alive_until = min(known.alive_until, time.time() + left - 2 * MOST_JUMP, moment(until))
        known.gone_after = max(known.gone_after, time.time() + left + 2 * MOST_JUMP, moment(until))
        self.journal.sandbox(known)
        try:
            self.api.call("POST", f"/sandboxes/{known.id}/renew-expiration", {"expiresAt": until}, ok=(200,))
        except Refused as refused:
            if refused.status < 500:
                known.deadlines, known.alive_until, known.gone_after = old
                self.journal.sandbox(known)
            raise
        known.deadlines = [until]
        known.alive_until = min(time.time() + left - 2 * MOST_JUMP, moment(until))
        self.journal.sandbox(known)

    def patch(self, known):
        name = f"p{self.rng.randrange(4)}"
        change = {name: str(self.rng.getrandbits(32))}
        known.metadata = [*known.metadata, *({**each, **change} for each in known.metadata)]
        self.journal.sandbox(known)
        shown = self.api.call("PATCH", f"/sandboxes/{known.id}/metadata", change)["metadata"]
        if shown not in known.metadata or shown.get(name) != change[name]:
            raise Broken("metadata", f"{shown}, promised {known.metadata}")
        known.metadata = [shown]
        self.journal.sandbox(known)

    # --- snapshots

    def snapshot(self, known):
        if len(self.snapshots) >= 2 or any(len(shas) > 1 for shas in known.files.values()):
            return NOTHING
        self.api.call("GET", f"/sandboxes/{known.id}?wait=30")
        files = {path: shas[0] for path, shas in known.files.items()}
        made = self.api.call("POST", f"/sandboxes/{known.id}/snapshots", {"name": known.key}, ok=(202,))
        snapshot = {"id": made["id"], "files": files, "state": "Creating"}
        self.snapshots[made["id"]] = snapshot
        self.journal.snapshot(snapshot)
        self.settle(snapshot)
        return "Failed" if snapshot["state"] == "Failed" else None

    def settle(self, snapshot):
        """Waits for the snapshot. Files written meanwhile may be in it or not, so this client writes nothing until
        then."""
        while snapshot["state"] == "Creating":
            try:
                shown = self.api.call("GET", f"/snapshots/{snapshot['id']}?wait=30")["status"]
            except (Lost, Refused) as failure:
                if isinstance(failure, Refused) and failure.status == 404:
                    snapshot["state"] = "lost"
                    self.journal.snapshot(snapshot)
                    raise Broken("snapshots", f"accepted and gone: {snapshot['id']}") from None
                time.sleep(0.2)
                continue
            if shown["state"] == "Failed" and not shown.get("reason"):
                raise Broken("snapshots", f"failed without a reason: {shown}")
            snapshot["state"] = shown["state"]
        self.journal.snapshot(snapshot)

    def drop_snapshot(self, known):
        for snapshot in list(self.snapshots.values()):
            if snapshot["state"] == "Creating":
                self.settle(snapshot)
            was, snapshot["state"] = snapshot["state"], "deleting"
            self.journal.snapshot(snapshot)
            try:
                self.api.call("DELETE", f"/snapshots/{snapshot['id']}", ok=(204,))
            except Refused as refused:
                if refused.code == "SNAPSHOT::DELETE_CONFLICT":  # something that was made from it lives; later then
                    return refused.kind
                if refused.status != 404:
                    raise
                if was == "Ready":
                    raise Broken("snapshots", f"ready and gone: {snapshot['id']}") from None
            self.snapshots.pop(snapshot["id"])
            self.journal.snapshot({**snapshot, "state": "deleted"})
            return None
        return NOTHING

    # --- commands

    def command(self, known):
        word = f"{self.rng.getrandbits(64):x}"
        code, output = self.api.run(known.id, f"echo {word}; echo to-stderr >&2; exit 0")
        if (code, sorted(output.split("\n"))) != (0, sorted([word, "to-stderr"])):
            raise Broken("commands", f"echo {word}: {code} {output!r}")

    def background(self, known):
        if len(known.background) >= 5:
            return NOTHING
        lines = self.rng.randrange(1, 300)
        text = self.api.execd(known.id, "POST", "/command",
                              {"command": f"seq 1 {lines}; sleep {self.rng.random():.2f}; echo end", "background": True})
        first = json.loads(text.split(b"\n")[0])
        known.background[first["text"]] = lines
        self.journal.sandbox(known)

    def check_background(self, known):
        if not known.background:
            return NOTHING
        try:
            ended = [check_background(self.api, known, id) for id in list(known.background)]
        finally:
            self.journal.sandbox(known)
        return None if any(ended) else "still running"

    def session(self, known):
        if known.session is None:
            known.session = json.loads(self.api.execd(known.id, "POST", "/session", {}))["session_id"]
            known.session_values = [""]
            self.journal.sandbox(known)
        value = f"{self.rng.getrandbits(32):x}"
        before = known.session_values
        known.session_values = [*before, value]
        self.journal.sandbox(known)
        code, output = self.api.run(known.id, f"echo \"was:$KEPT\"; export KEPT={value}", f"/session/{known.session}/run")
        if code != 0 or output.strip() not in [f"was:{each}" for each in before]:
            raise Broken("commands", f"session {known.session}: {code} {output!r}, set to one of {before}")
        known.session_values = [value]
        self.journal.sandbox(known)

    def stream(self, known):
        Stream(self.api, self.rng, known).follow()

    # --- files

    def upload(self, known):
        path = f"/root/file-{self.rng.randrange(6)}"
        size = self.rng.choice([1, 4096, 100_000, 1_000_000])
        content = self.rng.randbytes(64) * (size // 64 + 1)
        sha = digest(content)
        before = known.files.get(path, [None])
        known.files[path] = [*before, sha]
        self.journal.sandbox(known)
        self.api.upload(known.id, path, content)
        known.files[path] = [sha]
        self.journal.sandbox(known)

    def download(self, known):
        if not known.files:
            return NOTHING
        check_file(self.api, known, self.rng.choice(sorted(known.files)), "files")

    # --- what listens inside

    def traffic(self, known):
        if known.serving is None:
            word = f"{self.rng.getrandbits(64):x}"
            script = f"mkdir -p /tmp/www && echo {word} > /tmp/www/word && exec busybox httpd -p 8000 -h /tmp/www"
            if self.api.run(known.id, script)[0] != 0:
                return "not started"  # a full disk
            known.serving = word
            self.journal.sandbox(known)
        check_served(self.api, known, direct=self.rng.random() < 0.5)


if __name__ == "__main__":
    Client(int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]).run()
