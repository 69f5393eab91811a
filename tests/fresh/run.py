#!/usr/bin/env python3
"""README's `make test` on a fresh machine: a new Debian in namespaces of its own, with a minimal /dev, from a clone of the
last commit, with nothing prepared.

With --rounds the tests are built first and then run again and again, by ctest alone: with little CPU time (--cpu) and
beside other work (--load) the rounds show the tests and programs that depend on the speed of the machine. Everything that
was started ends with this program, and the machine is removed unless --root names a directory for it.
"""

import argparse
import collections
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree

from machine import REPOSITORY, WITH_PARENT, FreshRoot, Machine, Quota

SOURCES = "/root/opensandbox"


class Load:
    """Work that competes with the tests: busy processors, and directories that are renamed all the time."""

    def __init__(self, workers, quota, directory, seconds):
        self.process = None
        if not workers:
            return
        directory.mkdir(exist_ok=True)
        command = ["stress-ng", "--quiet", "--cpu", str(workers), "--rename", "1", "--temp-path", str(directory),
                   "--timeout", f"{seconds}s"]
        self.process = subprocess.Popen(
            quota.wrap([*WITH_PARENT, "unshare", "--pid", "--fork", "--kill-child=KILL", *command]),
            stdin=subprocess.DEVNULL, start_new_session=True)

    def close(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait()


class Fresh:
    def __init__(self, options):
        self.options = options
        self.deadline = time.monotonic() + options.minutes * 60
        self.logs = pathlib.Path(options.logs)
        self.logs.mkdir(parents=True, exist_ok=True)

    def left(self):
        return max(1, int(self.deadline - time.monotonic()))

    def run(self):
        root = FreshRoot(self.options.root)
        try:
            head = root.clone(SOURCES)
            print(f"fresh: {head[:12]} in {root.path}", flush=True)
            return self.rounds(root) if self.options.rounds else self.everything(root)
        finally:
            root.close()

    def machine(self, root, quota):
        binds = [(pathlib.Path(self.options.ccache).resolve(), "/root/.cache/ccache")] if self.options.ccache else []
        return Machine(root, quota, binds)

    def in_quota(self, root, body):
        quota = Quota(self.options.cpu)
        load = Load(self.options.load, quota, self.logs / "load", self.left())
        try:
            return body(self.machine(root, quota))
        finally:
            load.close()
            quota.close()
            shutil.rmtree(self.logs / "load", ignore_errors=True)

    def make(self, machine, target, log):
        code = machine.run(f"cd {SOURCES} && exec make {target} JOBS={self.options.jobs}", self.logs / log, self.left())
        if code is None:
            print(f"fresh: make {target} did not end within {self.options.minutes} minutes")
        return code

    def everything(self, root):
        code = self.in_quota(root, lambda machine: self.make(machine, "test", "make-test.log"))
        print(f"fresh: make test {'passed' if code == 0 else 'failed'}")
        return 0 if code == 0 else 1

    def rounds(self, root):
        if self.make(self.machine(root, Quota()), "ready", "make-ready.log") != 0:
            print("fresh: make ready failed")
            return 1
        self.in_quota(root, lambda machine: self.play(machine, root))
        return self.verdict()

    def play(self, machine, root):
        filters = "".join(f" {flag} '{value}'" for flag, value in
                          (("-R", self.options.filter), ("-E", self.options.exclude), ("-L", self.options.label)) if value)
        results = root.path / SOURCES[1:] / "build/release/round.xml"
        for path in self.logs.glob("round-*"):
            path.unlink()
        for number in range(1, self.options.rounds + 1):
            log = self.logs / f"round-{number}.log"
            results.unlink(missing_ok=True)
            code = machine.run(f"cd {SOURCES} && exec ctest --test-dir build/release --no-tests=error --no-label-summary"
                               f" --output-on-failure -j {self.options.jobs} --output-junit round.xml{filters}",
                               log, self.left())
            if code is None:
                print(f"fresh: round {number} did not end within {self.options.minutes} minutes")
                return
            shutil.copy(results, log.with_suffix(".xml"))
            print(f"fresh: round {number} of {self.options.rounds} {'passed' if code == 0 else 'FAILED'}", flush=True)

    def verdict(self):
        files = sorted(self.logs.glob("round-*.xml"))
        failed, run = collections.Counter(), collections.Counter()
        for file in files:
            for case in xml.etree.ElementTree.parse(file).getroot().iter("testcase"):
                run[case.get("name")] += 1
                failed[case.get("name")] += case.find("failure") is not None
        for name, count in sorted(failed.items()):
            if count:
                print(f"fresh: {name} failed in {count} of {run[name]} rounds")
        print(f"fresh: {len(files)} of {self.options.rounds} rounds, {len(run)} tests, {sum(n > 0 for n in failed.values())} "
              f"of them failed; logs in {self.logs}")
        return 0 if len(files) == self.options.rounds and not +failed else 1


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpu", type=float, help="processors' worth of CPU time for the tests, such as 0.5")
    parser.add_argument("--load", type=int, default=0, help="busy processes of stress-ng beside the tests, in the same quota")
    parser.add_argument("--rounds", type=int, default=0, help="so many rounds of ctest instead of one `make test`")
    parser.add_argument("--filter", help="ctest -R: only tests whose name matches")
    parser.add_argument("--exclude", help="ctest -E: no tests whose name matches")
    parser.add_argument("--label", help="ctest -L: only tests with this label")
    parser.add_argument("--ccache", help="a ccache directory to share with the fresh machine")
    parser.add_argument("--root", help="where the machine lives, and stays for the next run; otherwise it is removed")
    parser.add_argument("--minutes", type=int, default=300, help="everything ends after so long (300)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="as of make and ctest")
    parser.add_argument("--logs", default=str(REPOSITORY / "build/fresh/logs"), help="where the output goes")
    return parser.parse_args()


def main():
    options = parse()
    if os.geteuid() != 0:
        raise SystemExit("fresh: makes namespaces and device nodes, so it needs root")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return Fresh(options).run()
    except KeyboardInterrupt:
        print("fresh: interrupted")
        return 130


if __name__ == "__main__":
    sys.exit(main())
