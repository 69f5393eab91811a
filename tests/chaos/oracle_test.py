#!/usr/bin/env python3
"""The verdict of a chaos run: what is broken is called broken. One sandbox, played by a small HTTP server."""

import collections
import http.server
import json
import pathlib
import random
import sys
import tempfile
import threading
import time
import types
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import client  # noqa: E402
import oracle  # noqa: E402
import stream  # noqa: E402
from checks import stamp  # noqa: E402
from client import Client  # noqa: E402
from known import NOTHING, Journal, Known  # noqa: E402
from oracle import Oracle, broken_by_all  # noqa: E402
from report import Tally  # noqa: E402
from sleepers import Sleeper  # noqa: E402

INSIDE = "/v1/sandboxes/one/proxy/44772"


class Fake(http.server.ThreadingHTTPServer):
    """A server with the sandbox "one". Each attribute is something that can go wrong."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.port = self.server_address[1]
        self.status = {"state": "Running"}
        self.expires = stamp(time.time() + 3000)
        self.word = "served"
        self.serves = 200
        self.background = {"running": False, "exit_code": 0}
        self.kept = "kept"
        self.stream_breaks = False
        self.gap = False
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def shown(self):
        return {"id": "one", "status": self.status, "metadata": {"key": "k"}, "expiresAt": self.expires}

    def events(self, command):
        events = [{"type": "init", "text": "c1"}]
        if command.startswith("seq"):
            events += [{"type": "stdout", "text": f"line {n}"} for n in range(1, int(command.split()[-1]) + 1)]
            if self.gap:
                events[1] = {"type": "gap", "from": 2, "to": 2}
        else:
            events.append({"type": "stdout", "text": f"was:{self.kept}" if "$KEPT" in command else command[5:]})
        events.append({"type": "execution_complete"})
        return [{**event, "seq": seq} for seq, event in enumerate(events, 1)]

    def answer(self, method, path, body):
        """(status, JSON or text)"""
        if path.startswith(f"{INSIDE}/command/status/"):
            return 200, self.background
        if path.startswith(f"{INSIDE}/command/") and path.endswith("/logs"):
            return 200, "1\n2\n3\nend\n"
        if path.startswith(f"{INSIDE}/command/"):
            return 503, {"code": "NATIVE::UNAVAILABLE"}  # the rest of a stream
        if path.startswith(INSIDE):
            return 200, "".join(json.dumps(event) + "\n\n" for event in self.events(json.loads(body)["command"]))
        if path.endswith("/word"):
            return self.serves, self.word
        if path.endswith("/endpoints/44772"):
            return 200, {"headers": {"X-EXECD-ACCESS-TOKEN": "t"}}
        if path.endswith("/endpoints/8000"):
            return 200, {"endpoint": f"127.0.0.1:{self.port}"}
        if path.endswith("/renew-expiration"):
            return 200, json.loads(body)
        if path.startswith("/v1/sandboxes?metadata"):
            return 200, {"items": [self.shown()]}
        return (202 if method == "POST" else 200), self.shown()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer is one segment

    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, said = self.server.answer(self.command, self.path, body)
        text = (said if isinstance(said, str) else json.dumps(said)).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.server.stream_breaks and b"seq" in body:
            text = text[:len(text) // 2]
            self.close_connection = True
        self.wfile.write(text)

    do_POST = do_GET

    def date_time_string(self, timestamp=None):
        return super().date_time_string((timestamp or time.time()) + getattr(self.server, "offset", 0))

    def log_message(self, *_):
        pass


def promised(**more):
    return Known(**{"key": "k", "id": "one", "body": {"timeout": 3000}, "metadata": [{"key": "k"}], "ran": True,
                    "first_sent": time.time(), "alive_until": time.time() + 3000, "gone_after": time.time() + 3000,
                    **more})


class OneSandbox(unittest.TestCase):
    def setUp(self):
        self.fake = Fake()
        self.addCleanup(self.fake.server_close)
        self.addCleanup(self.fake.shutdown)
        self.known = promised(deadlines=[self.fake.expires])
        for module, name, value in ((oracle, "SETTLE", 0.3), (stream, "RECOVERY", 0.3)):
            patch = unittest.mock.patch.object(module, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def verdict(self):
        """The promises that are broken, and the figures."""
        world = types.SimpleNamespace(server=types.SimpleNamespace(port=self.fake.port, key=""))
        judge = Oracle(world, [self.known], [])
        judge.check_promises()
        self.said = judge.broken
        return [promise for promise, _ in judge.broken], judge.figures

    def test_a_correct_state_keeps_every_promise(self):
        self.known.background = {"b1": 3}
        self.known.serving = "served"
        self.known.session, self.known.session_values = "s1", ["", "kept"]
        broken, figures = self.verdict()
        self.assertEqual(broken, [], self.said)
        for what in ("found", "background commands ended", "listeners asked", "streams"):
            self.assertEqual(figures[what], 1, what)

    def test_a_sandbox_that_has_run_does_not_end(self):
        for state, reason in (("Terminated", "SANDBOX_LOST"), ("Terminated", "SANDBOX_REMOVED"),
                              ("Terminated", "CONTAINER_EXITED"), ("Terminated", "HOST_RESTARTED"),
                              ("Failed", "OUT_OF_MEMORY"), ("Failed", "SIGNALLED"), ("Failed", None),
                              ("Failed", "NATIVE::SANDBOX_START_FAILED")):
            for known in (promised(), promised(ended={"state": state, "reason": reason})):
                with self.subTest(reason=reason, noted=bool(known.ended)):
                    self.known = known
                    self.fake.status = {"state": state, "reason": reason}
                    self.assertEqual(self.verdict()[0], ["sandboxes"])

    def test_a_sandbox_that_never_ran_may_not_have_been_made_but_is_not_forgotten(self):
        for reason, broken in (("NATIVE::SANDBOX_START_FAILED", []), ("SANDBOX_LOST", ["sandboxes"]),
                               ("SANDBOX_REMOVED", ["sandboxes"]), (None, ["sandboxes"])):
            with self.subTest(reason=reason):
                self.known = promised(ran=False)
                self.fake.status = {"state": "Failed", "reason": reason}
                self.assertEqual(self.verdict()[0], broken)

    def test_having_run_is_noted(self):
        known = promised(ran=False)
        known.note_status({"state": "Pending"})
        self.assertFalse(known.ran)
        for state in ("Running", "Paused"):
            known.ran = False
            known.note_status({"state": state})
            self.assertTrue(known.ran)

    def test_a_background_command_that_does_not_end(self):
        self.known.background = {"b1": 3}
        self.fake.background = {"running": True}
        self.assertEqual(self.verdict()[0], ["commands"])

    def test_a_background_command_that_lacks_output(self):
        self.known.background = {"b1": 4}
        self.assertEqual(self.verdict()[0], ["commands"])

    def test_a_session_that_forgot(self):
        self.known.session, self.known.session_values = "s1", ["another"]
        self.assertEqual(self.verdict()[0], ["commands"])

    def test_a_listener_that_cannot_be_reached(self):
        self.known.serving, self.fake.serves = "served", 502
        self.assertEqual(self.verdict()[0], ["answers"])

    def test_a_listener_that_says_something_else(self):
        self.known.serving, self.fake.word = "served", "else"
        self.assertEqual(self.verdict()[0], ["traffic"])

    def test_a_stream_that_is_not_recovered(self):
        self.fake.stream_breaks = True
        self.assertEqual(self.verdict()[0], ["streams"])
        self.assertIn("not recovered", self.said[0][1])

    def test_events_that_are_gone_without_a_fault(self):
        self.fake.gap = True
        self.assertEqual(self.verdict()[0], ["answers"])

    def test_a_create_whose_answer_was_lost_is_not_late(self):
        self.known = Known(key="k", body={"timeout": 3000}, metadata=[{"key": "k"}], first_sent=time.time())
        broken, figures = self.verdict()
        self.assertEqual((broken, figures["found"]), ([], 1), self.said)

    def test_a_create_that_its_client_saw_refused_is_not_asked_again(self):
        self.known = Known(key="k", body={"timeout": 3000}, gone=[True])
        self.assertEqual(self.verdict()[1]["sandboxes promised"], 0)


class Clients(unittest.TestCase):
    def setUp(self):
        self.fake = Fake()
        self.addCleanup(self.fake.server_close)
        self.addCleanup(self.fake.shutdown)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "journal"

    def client(self, seed=1):
        made = Client(self.fake.port, "", self.path, seed)
        self.addCleanup(made.api.close)
        return made

    def tally(self):
        read = Tally([self.path])
        read.read()
        return read

    def test_after_a_renewal_a_sandbox_must_be_there_for_a_while(self):
        for offset in (-client.MOST_JUMP, 0, client.MOST_JUMP):
            self.fake.offset = offset
            one = self.client()
            for seed in range(50):
                one.rng = random.Random(seed)
                known = promised(deadlines=[self.fake.expires])
                one.renew(known)
                self.assertGreater(known.alive_until, time.time() + 600)
                self.assertGreater(known.gone_after, known.alive_until)

    def test_a_background_command_that_runs_on_is_not_done(self):
        self.fake.background = {"running": True}
        one = self.client()
        known = promised(background={"b1": 3}, ran=False)
        with unittest.mock.patch.object(one, "choose", lambda: (one.check_background, known)):
            for _ in range(oracle.ENOUGH_TRIES):
                one.step()
        self.assertFalse(known.ran)
        self.assertEqual([promise for promise, _ in broken_by_all(self.tally(), [], 0, 1)], ["answers", "answers"])

    def test_a_sandbox_that_answers_has_run(self):
        one = self.client()
        known = promised(background={"b1": 3}, ran=False)
        with unittest.mock.patch.object(one, "choose", lambda: (one.check_background, known)):
            one.step()
        self.assertTrue(known.ran)
        self.assertEqual(self.tally().operations()["check_background"]["done"], 1)

    def test_events_may_be_gone_only_while_the_disk_is_full(self):
        self.fake.gap = True
        one = self.client()
        with unittest.mock.patch.object(one, "choose", lambda: (one.stream, promised())):
            one.step()
        tally, now = self.tally(), time.monotonic()
        self.assertEqual(len(tally.gaps), 1)
        for why, fault, broken in (("no fault", [], 1),
                                   ("another fault", [{"fault": "kill_server", "at": 0, "until": 60}], 1),
                                   ("earlier", [{"fault": "fill_disk", "at": 0, "until": 10}], 1),
                                   ("full", [{"fault": "fill_disk", "at": 0, "until": 60}], 0),
                                   ("full", [{"fault": "kill_on_full_disk", "at": 55, "until": 61}], 0)):
            with self.subTest(why):
                self.assertEqual(len(broken_by_all(tally, fault, now - 60, 0.5)), broken)


class Operations(unittest.TestCase):
    def verdict(self, outcomes, minutes=1):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "journal"
            journal = Journal(path)
            for name, outcome, count in outcomes:
                for _ in range(count):
                    journal.op(name, outcome, 0.1)
            tally = Tally([path])
            tally.read()
        return [text.split(" ")[0] for _, text in broken_by_all(tally, [], 0, minutes)]

    def test_an_operation_that_never_succeeds_is_broken(self):
        done = ("look", "done", 1)
        self.assertEqual(self.verdict([done, ("traffic", "502", 5)]), ["traffic"])
        self.assertEqual(self.verdict([done, ("traffic", "502", 500), ("traffic", "done", 1)]), [])
        self.assertEqual(self.verdict([done, ("traffic", "502", 5)], minutes=0.5), [])
        self.assertEqual(self.verdict([done, ("create", "502", 2)]), [], "too few to tell")
        self.assertEqual(self.verdict([done, ("download", NOTHING, 50)]), [], "it was not tried")

    def test_a_run_in_which_nothing_happened_is_broken(self):
        self.assertEqual(self.verdict([]), ["nothing"])


class SleepersTest(unittest.TestCase):
    def broken(self, seen, answered=(), refused=(), unsure=()):
        sleeper = Sleeper(None, "seed", None)
        sleeper.answered, sleeper.refused, sleeper.unsure = list(answered), list(refused), list(unsure)
        sleeper._compare(collections.Counter(seen))
        return [promise for promise, _ in sleeper.broken]

    def test_requests_that_came_once_or_never_are_fine(self):
        self.assertEqual(self.broken({1: 1, 3: 1}, answered=[1], refused=[2], unsure=[3, 4]), [])

    def test_what_was_answered_is_there(self):
        self.assertEqual(self.broken({}, answered=[1]), ["wakes"])

    def test_what_came_twice_is_seen(self):
        self.assertEqual(self.broken({1: 2}, answered=[1]), ["wakes"])
        self.assertEqual(self.broken({1: 2}, unsure=[1]), ["wakes"])

    def test_what_the_wake_refused_never_comes(self):
        self.assertEqual(self.broken({1: 1}, refused=[1]), ["wakes"])


if __name__ == "__main__":
    unittest.main()
