"""Sandboxes with an idlePolicy that are paused again and again, by request and by their idle time, while numbered requests
come in through the proxy. A request that was answered reached the sandbox once, one that was refused because the wake
took too long never did, and no request did twice."""

import collections
import concurrent.futures
import http.client
import json
import random
import threading

KEY_HEADER = "OPEN-SANDBOX-API-KEY"
PATIENCE = 90  # seconds without a byte; more is a hang, with any fault
IDLE = 30  # seconds, the least that a policy may say
AT_ONCE = 8
#  Counts in memory, which a pause keeps and a full disk does not touch.
COUNTER = """
import collections, http.server, json, threading
seen, lock = collections.Counter(), threading.Lock()
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self):
        with lock:
            self.answer(json.dumps(seen).encode())
    def do_POST(self):
        number = self.rfile.read(int(self.headers["Content-Length"])).decode()
        with lock:
            seen[number] += 1
        self.answer(b"counted")
    def log_message(self, *words):
        pass
http.server.ThreadingHTTPServer.request_queue_size = 128
http.server.ThreadingHTTPServer(("0.0.0.0", 8000), Handler).serve_forever()
"""
BODY = {"image": {"uri": "host"}, "entrypoint": ["python3", "-c", COUNTER],
        "resourceLimits": {"cpu": "1", "memory": "128Mi"},
        "lifecycle": {"idlePolicy": {"idleTimeoutSeconds": IDLE, "onIdle": "pause"}}}


class Sleeper(threading.Thread):
    """One sandbox, and what became of each request to it."""

    def __init__(self, server, seed, ending):
        super().__init__(daemon=True)
        self._server, self._rng, self._ending = server, random.Random(seed), ending
        self._next = 0
        self.id = None
        self.answered, self.refused, self.unsure = [], [], []  # numbers
        self.pauses = 0
        self.broken = []

    # --- requests

    def _call(self, method, path, body=None, headers=None):
        """(status, headers, body), or nothing: no answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self._server.port, timeout=PATIENCE)
        try:
            connection.request(method, path, body, {KEY_HEADER: self._server.key, **(headers or {})})
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        except TimeoutError:
            self.broken.append(("answers", f"{method} {path}: no answer within {PATIENCE} s"))
            return None
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def _post(self, number):
        """A 4xx blames the client, which is right."""
        answer = self._call("POST", f"/sandboxes/{self.id}/proxy/8000/", str(number), {"Content-Type": "text/plain"})
        if answer is None:
            return self.unsure.append(number)
        status, headers, body = answer
        if status == 200 and body == b"counted":
            self.answered.append(number)
        elif status == 503 and headers.get("OpenSandbox-Wake") == "expired":
            self.refused.append(number)
        elif status >= 500 or status == 429:
            self.unsure.append(number)
        else:
            self.broken.append(("wakes", f"request {number} to {self.id}: {status} {body[:300]!r}"))

    def _post_some(self, count):
        numbers = range(self._next, self._next + count)
        self._next += count
        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            list(pool.map(self._post, numbers))

    def _state(self):
        answer = self._call("GET", f"/v1/sandboxes/{self.id}")
        return json.loads(answer[2])["status"]["state"] if answer and answer[0] == 200 else None

    def _pause(self):
        answer = self._call("POST", f"/v1/sandboxes/{self.id}/pause")
        self.pauses += answer is not None and answer[0] == 202

    # --- its life

    def _create(self):
        key = f"sleeper-{self._rng.getrandbits(64):x}"
        while not self._ending.is_set():
            answer = self._call("POST", "/v1/sandboxes?wait=60", json.dumps(BODY),
                                {"Idempotency-Key": key, "Content-Type": "application/json"})
            if answer and answer[0] == 202:
                self.id = json.loads(answer[2])["id"]
                return
            self._ending.wait(0.2)

    def run(self):
        self._create()
        while self.id and not self._ending.is_set():
            if self._rng.random() < 0.9:
                self._pause()
            else:  # until it pauses by itself
                self._ending.wait(IDLE + 2)
                self.pauses += self._state() == "Paused"
            self._post_some(self._rng.randrange(1, AT_ONCE))
            self._ending.wait(self._rng.uniform(0, 0.5))

    def judge(self):
        """After the last fault: once more, and then the numbers are compared. Removes the sandbox."""
        if not self.id:
            return
        before = len(self.answered)
        self._pause()
        self._post_some(AT_ONCE)
        if len(self.answered) != before + AT_ONCE:
            self.broken.append(("wakes", f"{self.id}: of {AT_ONCE} requests with no fault around "
                                         f"{len(self.answered) - before} were answered"))
        told = self._call("GET", f"/sandboxes/{self.id}/proxy/8000/")
        if not told or told[0] != 200:
            self.broken.append(("wakes", f"{self.id} does not tell what it has seen: {told}"))
            seen = None
        else:
            seen = collections.Counter({int(number): count for number, count in json.loads(told[2]).items()})
        if seen is not None:
            self._compare(seen)
        gone = self._call("DELETE", f"/v1/sandboxes/{self.id}")
        if not gone or gone[0] != 204:
            self.broken.append(("sandboxes", f"sleeper {self.id} is not deleted: {gone}"))

    def _compare(self, seen):
        lost = [number for number in self.answered if seen[number] == 0]
        twice = [number for number, count in seen.items() if count > 1]
        forwarded = [number for number in self.refused if seen[number] > 0]
        for what, numbers in (("answered and not delivered", lost), ("delivered twice", twice),
                              ("refused by the wake and delivered", forwarded)):
            if numbers:
                self.broken.append(("wakes", f"{self.id}: {what}: {numbers[:10]}"))


class Sleepers:
    def __init__(self, world, count, seed):
        self._ending = threading.Event()
        self._all = [Sleeper(world.server, f"{seed}/sleeper/{number}", self._ending) for number in range(count)]
        for each in self._all:
            each.start()

    def stop(self):
        """Returns when each has finished its step."""
        self._ending.set()
        for each in self._all:
            each.join(2 * PATIENCE)

    def judge(self):
        """Broken promises, and figures."""
        for each in self._all:
            each.judge()

        def count(name):
            return sum(len(getattr(each, name)) for each in self._all)

        figures = {"pauses of sleepers": sum(each.pauses for each in self._all), "requests to them": count("answered"),
                   "refused by the wake": count("refused"), "without an answer": count("unsure")}
        broken = [item for each in self._all for item in each.broken]
        if figures["requests to them"] == 0 and self._all:
            broken.append(("wakes", "no request to a paused sandbox was ever answered"))
        return broken, figures
