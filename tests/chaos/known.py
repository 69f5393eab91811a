"""The promises made to a client, kept in a file that outlives the client."""

import datetime
import json
import os
import time

NOTHING = "nothing to do"  # outcome of an operation that was not tried
HAS_RUN = ("Running", "Pausing", "Paused", "Resuming")


def moment(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


class Known:
    """One sandbox. Fields that hold a list of possibilities have more than one while an answer is outstanding or lost.

    `ran`: it was seen running, or something in it has answered. `ended` is the status it ended with, if it did.
    `alive_until` and `gone_after` are moments of the real clock: before the first it must be there, after the second it
    must not. They differ because the server's clock is set while it runs.
    """

    FIELDS = {"key": None, "body": None, "first_sent": 0.0, "id": None, "states": ["Running"], "metadata": None,
              "deadlines": [], "alive_until": 0.0, "gone_after": 0.0, "gone": [False], "ran": False, "ended": None,
              "files": {}, "background": {}, "session": None, "session_values": [], "serving": None}

    def __init__(self, **fields):
        for name, default in self.FIELDS.items():
            value = fields.get(name, default)
            setattr(self, name, value.copy() if isinstance(value, (list, dict)) else value)

    def note_created(self, made):
        """The promises of the answer to its create."""
        due = moment(made["expiresAt"])
        self.id = made["id"]
        self.deadlines = [made["expiresAt"]]
        self.alive_until = min(self.first_sent + self.body["timeout"], due)
        self.gone_after = max(time.time() + self.body["timeout"], due)
        self.note_status(made["status"])

    def note_status(self, status):
        self.ran = self.ran or status["state"] in HAS_RUN
        if status["state"] in ("Failed", "Terminated"):
            self.ended = status

    def as_json(self):
        return {name: getattr(self, name) for name in self.FIELDS}

    @property
    def is_here(self):
        return self.id is not None and self.gone == [False] and not self.ended


class Journal:
    """Appended line by line, each in one write: what a client that is killed had been answered is in it.

    A line is a whole object: {"sandbox": ..}, {"snapshot": ..}, {"op": ..}, {"broken": promise, "text": ..},
    {"gap": id, "from": .., "to": ..} (moments of the monotonic clock).
    """

    def __init__(self, path):
        self.path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def _add(self, line):
        os.write(self._fd, json.dumps(line).encode() + b"\n")

    def sandbox(self, known):
        self._add({"sandbox": known.as_json()})

    def snapshot(self, snapshot):
        self._add({"snapshot": snapshot})

    def op(self, name, outcome, seconds):
        self._add({"op": name, "outcome": outcome, "s": round(seconds, 4)})

    def gap(self, id, begin, end):
        self._add({"gap": id, "from": begin, "to": end})

    def broken(self, promise, text):
        self._add({"broken": promise, "text": text})


def read_lines(path):
    with open(path, "rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield json.loads(line)


def load(path):
    """({key: Known}, {id: snapshot}) as the journal says at its end."""
    sandboxes, snapshots = {}, {}
    if os.path.exists(path):
        for line in read_lines(path):
            if "sandbox" in line:
                sandboxes[line["sandbox"]["key"]] = Known(**line["sandbox"])
            elif "snapshot" in line:
                snapshots[line["snapshot"]["id"]] = line["snapshot"]
    return sandboxes, snapshots
