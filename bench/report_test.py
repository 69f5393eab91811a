#!/usr/bin/env python3
"""The report of `make bench` from recorded results: complete, honest about failures, the same for the same results."""

import json
import pathlib
import sys
import tempfile
import unittest
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import compose  # noqa: E402
import report  # noqa: E402
import tables  # noqa: E402: of bench/peers

MACHINE = {"cpu": "Example CPU", "cores": 2, "memory_gib": 8.0, "kernel": "6.1.0", "load": 0.1, "commit": "abcdef0",
           "date": "2026-01-31"}


def samples(p50):
    return {"count": 100, "per_s": 100.0, "p50": p50, "p90": p50 * 1.5, "p95": p50 * 2, "p99": p50 * 3}


def created(p50, failed=0, error="", **more):
    return {"asked": 100, "failed": failed, "error": error, "slowest_ms": p50 * 3, "output": samples(p50), **more}


def peers(others=0.0):
    return {
        "others": others,
        "versions": dict.fromkeys(("engine", "original", "runc", "runsc", "bwrap"), "some version 1"),
        "peers": {
            "native": {"label": "this project, native", "measured": {
                "create": {"1": created(5.0, running=samples(4.0), answered=samples(4.2)), "100": created(200.0)},
                "cycle": samples(10) | {"per_s": 250.0}, "commands": {"per_s": 1200.0}, "first": samples(1.2),
                "stream": {"mb_s": 400.0}, "files": {"up_mb_s": 500.0, "down_mb_s": 900.0}, "get": {"per_s": 50000.0},
                "pause": {"pause": samples(1.5), "resume": samples(0.9)},
                "snapshot": {"snapshot": samples(20), "restore": samples(6)},
                "memory": [{"sandboxes": 100, "kib_each": 800.0}, {"sandboxes": 500, "kib_each": 1000.0}]}},
            "engine": {"label": "Docker Engine", "measured": {
                "create": {"1": created(250.0, started=samples(200)), "100": created(9000.0, 3, "no | space\nleft")},
                "cycle": {"failed": "RuntimeError: it broke"}, "memory": [{"sandboxes": 50, "kib_each": 9000.0}]}},
            "bwrap": {"label": "bwrap", "measured": {"create": {"1": created(4.8), "100": created(150.0)},
                                                     "pause": {"none": "no such thing"}}},
            "original": {"label": "original server, Docker", "failed": "RuntimeError: it does not listen"},
        },
    }


def result(name, data, **more):
    return {"name": name, "title": name.capitalize(), "machine": MACHINE, "command": f"bench/{name}/run.py",
            "seconds": 12.3, "data": data, "markdown": f"figures of {name}", **more}


def recorded(others=0.0):
    found = result("peers", peers(others))
    found["markdown"] = tables.markdown(found["data"], None)
    server = result("server", {"creates": {"command": samples(9.0)}, "others": others})
    failed = {key: value for key, value in result("native", None, failed="RuntimeError: no | sandbox").items()
              if key not in ("data", "markdown")}
    return {each["name"]: each for each in (found, server, failed)}


def row(page, begin):
    return next(line for line in page.splitlines() if line.startswith(f"| {begin}"))


class Report(unittest.TestCase):
    def test_targets_are_judged_and_missed_ones_are_named(self):
        page = compose.page(recorded())
        self.assertIn("met", row(page, "pause, through the API, p50"))
        self.assertIn("**missed**", row(page, "API create → first command's output, p50"))

    def test_a_busy_machine_is_no_judge(self):
        self.assertIn("not judged", row(compose.page(recorded(others=0.5)), "pause, through the API, p50"))

    def test_a_failed_part_says_so_and_the_others_are_there(self):
        page = compose.page(recorded())
        self.assertIn("not measured: bench/native failed", row(page, "native create → execd answers, p50"))
        self.assertIn("Failed in this run, so there are no figures: RuntimeError: no / sandbox", page)
        self.assertIn("figures of server", page)
        self.assertIn("not run", row(page, "bench/execd"))

    def test_a_failed_peer_or_measurement_is_told(self):
        page = compose.page(recorded())
        self.assertIn("- original server, Docker: RuntimeError: it does not listen", page)
        self.assertIn("- Docker Engine, cycle: RuntimeError: it broke", page)
        self.assertIn("- Docker Engine, 3 of 100 creates by 100: no / space left", page)
        self.assertIn("97 of 100", page)

    def test_what_a_peer_lacks_is_a_dash_and_a_word(self):
        self.assertIn("– (no such thing)", compose.page(recorded()))

    def test_ratios_are_towards_the_native_runtime(self):
        ratios = next(line for line in compose.page(recorded()).splitlines()
                      if line.startswith("| Docker Engine") and "50.0×" in line)
        self.assertIn("45.0×", ratios)

    def test_every_row_of_every_table_is_as_wide_as_its_head(self):
        width = None
        for line in compose.page(recorded()).splitlines():
            if not line.startswith("|"):
                width = None
                continue
            width = width or line.count("|")
            self.assertEqual(line.count("|"), width, line)

    def test_plots_are_small_well_formed_and_the_same_each_time(self):
        with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
            for directory in (first, second):
                compose.write(recorded(), pathlib.Path(directory) / "benchmarks.md")
            files = sorted(pathlib.Path(first).glob("plots/*.svg"))
            self.assertEqual([file.name for file in files], ["create.svg", "memory.svg", "throughput.svg"])
            for file in files:
                self.assertEqual(file.read_bytes(), (pathlib.Path(second) / "plots" / file.name).read_bytes())
                self.assertLess(file.stat().st_size, 100_000)
                xml.etree.ElementTree.parse(file)

    def test_results_are_read_as_they_were_written(self):
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory)
            for each in recorded().values():
                report.write(path, each)
            (path / "other.json").write_text(json.dumps({"of": "something else"}))
            self.assertEqual(compose.page(report.read(path)), compose.page(recorded()))

    def test_no_path_of_this_machine_is_told(self):
        self.assertEqual(report.without_root(report.ROOT / "build" / "release"), "build/release")
        self.assertNotIn(str(report.ROOT), compose.page(recorded()))


if __name__ == "__main__":
    unittest.main()
