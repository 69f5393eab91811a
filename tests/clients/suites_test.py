#!/usr/bin/env python3
"""A suite that fails is recorded as failed, even if it printed successes before."""

import os
import pathlib
import queue
import tempfile
import types
import unittest
import unittest.mock

import inside
import run
from features import CODE, FEATURES

NOTHING_LEFT = types.SimpleNamespace(json=lambda: {"items": []})
SERVER = types.SimpleNamespace(url="", key="", client=types.SimpleNamespace(get=lambda *_, **__: NOTHING_LEFT))
WORKS = """echo '{"feature": "%s", "result": "works"}'\n"""


class Suites(unittest.TestCase):
    def told(self, script, features):
        """The recorded results of a suite, and its problems."""
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "run"
            program.write_text("#!/bin/sh\n" + script)
            program.chmod(0o755)
            events = queue.Queue()
            suite = {"version": "1", "folder": folder, "run": str(program), "features": features}
            with unittest.mock.patch.object(inside, "tell", lambda **event: events.put(("native", event))), \
                    unittest.mock.patch.dict(os.environ, {"BACKEND": "native"}):
                inside.run(SERVER, 0, suite, False, [], False)
        events.put(("native", {"event": "over", "code": 0}))
        entry = {"results": {}}
        broken = run.follow(1, events, [("client", entry)], lambda _: None, False)
        return {name: cells["native"]["result"] for name, cells in entry["results"].items()}, broken

    def test_a_suite_that_works(self):
        self.assertEqual(self.told(WORKS % CODE, [CODE]), ({CODE: "works"}, []))
        everything = "".join(WORKS % name for name in FEATURES)
        self.assertEqual(self.told(everything, None), (dict.fromkeys(FEATURES, "works"), []), "none has code execution")

    def test_a_suite_that_dies_before_its_first_line(self):
        for features in ([CODE], ["renew"]):
            results, broken = self.told("exit 1", features)
            self.assertEqual(results, dict.fromkeys(features, "fails"))
            self.assertEqual(broken, ["client on native: the suite ended with 1"])

    def test_a_suite_that_says_nothing(self):
        self.assertEqual(self.told("exit 0", [CODE]), ({CODE: "fails"}, []))

    def test_a_suite_that_dies_after_its_last_line(self):
        results, broken = self.told(WORKS % "renew" + "kill -SEGV $$", ["renew"])
        self.assertEqual((results, broken), ({"renew": "works"}, ["client on native: the suite ended with -11"]))

    def test_a_suite_whose_time_is_over(self):
        with unittest.mock.patch.object(inside, "SECONDS", 0.2):
            results, broken = self.told("exec sleep 600", [CODE])
        self.assertEqual((results, broken), ({CODE: "fails"}, ["client on native: the suite was ended after 0.2 s"]))


if __name__ == "__main__":
    unittest.main()
