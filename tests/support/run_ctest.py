#!/usr/bin/env python3
"""Runs ctest and ends with what a person wants to know: run_ctest.py BUILD [CTEST ARGUMENT]...

Lists the failed tests and the skipped ones, each with its reason in one line, also cases that pytest skipped inside a test
that passed. The last line has the counts. The exit code is ctest's.
"""

import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree

RESULTS = "Testing/results.xml"
# ctest's mark of a test that ran and asked to be skipped. Any other test that did not run is a failure.
SKIPPED = "SKIP_"
GTEST_REASON = re.compile(r"^\S+:\d+: Skipped\n(.*)$", re.MULTILINE)
PYTEST_REASON = re.compile(r"^SKIPPED \[(\d+)\] (?:\S*/)?([^/\s]+): (.+)$", re.MULTILINE)


class Summary:
    def __init__(self):
        self.passed = 0
        self.failed = []   # names
        self.skipped = []  # "name: reason"
        self.cases = []    # the same, of cases inside tests that passed
        self.case_count = 0

    def add(self, root):
        """The results of one ctest run, as it writes them with --output-junit."""
        for test in root.iter("testcase"):
            name = test.get("name").split("  # ")[0]
            output = test.findtext("system-out") or ""
            skipped = test.find("skipped")
            if test.get("status") == "disabled":
                self.skipped.append(f"{name}: disabled")
            elif skipped is not None and skipped.get("message", "").startswith(SKIPPED):
                self.skipped.append(f"{name}: {_reason(output)}")
            elif skipped is not None:
                self.failed.append(f"{name}: did not run: {skipped.get('message')}")
            elif test.get("status") != "run":
                self.failed.append(name)
            else:
                self.passed += 1
                for count, place, reason in PYTEST_REASON.findall(output):
                    self.case_count += int(count)
                    self.cases.append(f"{name}, {place}: {reason}" + (f" ({count} cases)" if count != "1" else ""))

    def lines(self):
        if self.failed:
            yield "Failed tests:"
            yield from (f"  {line}" for line in self.failed)
        if self.skipped or self.cases:
            yield "Skipped tests:"
            yield from (f"  {line}" for line in [*self.skipped, *self.cases])
        else:
            yield "No test was skipped."
        inside = f" (and {self.case_count} cases inside tests that passed)" if self.case_count else ""
        yield f"{self.passed} passed, {len(self.failed)} failed, {len(self.skipped)} skipped{inside}"


def _reason(output):
    found = GTEST_REASON.search(output)
    return found[1].strip() if found and found[1].strip() else "the test gives no reason"


def main():
    build, *arguments = sys.argv[1:]
    results = pathlib.Path(build).resolve() / RESULTS
    results.parent.mkdir(parents=True, exist_ok=True)
    results.unlink(missing_ok=True)
    # ctest shortens what passed tests have written unless it is told not to.
    code = subprocess.run(["ctest", "--test-dir", build, "--output-on-failure", "--no-label-summary", "--no-tests=error",
                           "--output-junit", results, "--test-output-size-passed", "10000000", *arguments]).returncode
    summary = Summary()
    if results.exists():
        summary.add(xml.etree.ElementTree.parse(results).getroot())
    print()
    print(*summary.lines(), sep="\n")
    return code


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
