"""A command that writes numbered lines, and its reader."""

import json
import time

from api import TOKEN_HEADER, Lost, Refused, Truncated
from checks import RECOVERY, Broken


class Stream:
    """Numbered lines: complete, or an error that can be seen; what is missing after one comes when asked again."""

    def __init__(self, api, rng, known):
        self.api, self.rng, self.known = api, rng, known
        self.lines = self.rng.choice([10, 1000, 20_000])
        self.how = self.rng.choice(["at once", "at once", "slowly", "leaves"])
        self.id = None
        self.last = 0  # event
        self.next = 1  # line
        self.code = None

    def follow(self):
        api = self.api
        api.close()  # the small buffer is for this connection
        headers = {TOKEN_HEADER: api.token(self.known.id), "Content-Type": "application/json"}
        base = f"/v1/sandboxes/{self.known.id}/proxy/44772/command"
        body = json.dumps({"command": f"seq -f 'line %.0f' 1 {self.lines}"}).encode()
        try:
            self.read(api.open("POST", base, body, headers, small_buffer=self.how == "slowly"))
        except Lost as lost:
            if self.id is None or lost.kind in ("hang", "gap"):
                raise
        finally:
            api.close()
        limit = time.monotonic() + RECOVERY
        while self.code is None:
            if time.monotonic() > limit:
                raise Broken("streams", f"{self.id}: not recovered in {RECOVERY} s after line {self.next - 1} of {self.lines}")
            try:
                self.read(api.open("GET", f"{base}/{self.id}/events?after={self.last}", headers=headers))
            except (Lost, Refused) as failure:
                if failure.kind in ("hang", "gap") or getattr(failure, "status", 500) < 500:
                    raise
                time.sleep(0.2)
        if self.code != 0 or self.next != self.lines + 1:
            raise Broken("streams", f"{self.id}: exit {self.code} after {self.next - 1} of {self.lines} lines")

    def read(self, response):
        if response.status != 200:
            text = b"".join(self.api.pieces(response)).decode(errors="replace")
            raise Refused("stream", response.status, text)
        leave_at = self.rng.randrange(self.lines) if self.how == "leaves" else None
        rest = b""
        for piece in self.api.pieces(response, 2048 if self.how == "slowly" else 65536):
            *lines, rest = (rest + piece).split(b"\n")
            for line in filter(None, lines):
                self.event(json.loads(line))
            if leave_at is not None and self.id and self.next > leave_at:
                self.how = "left"
                self.api.close()
                return
            if self.how == "slowly" and self.next < 500:
                time.sleep(0.01)
        if self.code is None:
            raise Truncated(f"{self.id} ended in order after line {self.next - 1} of {self.lines}, without a last event")

    def event(self, event):
        kind = event["type"]
        if kind == "gap":  # a full disk: events are gone, and it says which
            raise Lost("gap")
        if "seq" in event:
            if event["seq"] != self.last + 1:
                raise Broken("streams", f"{self.id}: event {event['seq']} after {self.last}")
            self.last = event["seq"]
        if kind == "init":
            self.id = event["text"]
        elif kind == "stdout":
            if event["text"] != f"line {self.next}":
                raise Broken("streams", f"{self.id}: {event['text']!r} instead of line {self.next}")
            self.next += 1
        elif kind == "execution_complete":
            self.code = 0
        elif kind == "error":
            self.code = event["error"]["evalue"]
