#!/usr/bin/env python3
"""Runs ctest and ends with what a person wants to know: run_ctest.py BUILD [CTEST ARGUMENT]...

Lists the failed tests and the skipped ones, each with its reason in one line. A test of ctest has many cases of GoogleTest or
pytest: those that failed are named, and those that were skipped inside a test that passed. The last line has the counts.
The exit code is ctest's.
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
# The name may stand in a line with what the case itself has written.
GTEST_CASE = re.compile(r"\[( RUN      |       OK |  FAILED  |  SKIPPED )\] (\w[\w/]*\.\w[\w/]*)")
GTEST_COUNT = re.compile(r"^\[  PASSED  \] (\d+) tests?\.$", re.MULTILINE)
PYTEST_FAILURE = re.compile(r"^(?:FAILED|ERROR) (?:\S*/)?(\w+\.py(?:::\w+)*(?:\[.*?\])?)(?: - .*)?$", re.MULTILINE)
PYTEST_COUNT = re.compile(r"^(?:=+ )?(?:\d+ \w+, )*?(\d+) passed\b.* in [\d.]+s", re.MULTILINE)
PYTEST_REASON = re.compile(r"^SKIPPED \[(\d+)\] (?:\S*/)?([^/\s]+): (.+)$", re.MULTILINE)


class Summary:
    def __init__(self):
        self.passed = 0
        self.passed_cases = 0
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
                self.failed.append(": ".join(filter(None, [name, ", ".join(_failed_cases(output))])))
            else:
                self.passed += 1
                self.passed_cases += sum(map(int, GTEST_COUNT.findall(output) + PYTEST_COUNT.findall(output)))
                for case, reason in _skipped_by_gtest(output):
                    self.case_count += 1
                    self.cases.append(f"{name}, {case}: {reason}")
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
        passed = f"{self.passed} passed" + (f" ({self.passed_cases} cases)" if self.passed_cases else "")
        yield f"{passed}, {len(self.failed)} failed, {len(self.skipped)} skipped{inside}"


def _failed_cases(output):
    """Names of the cases that failed, and of the one in whose middle a program of GoogleTest has ended."""
    failed, running = {}, None
    for word, case in GTEST_CASE.findall(output):
        if word == " RUN      ":
            running = case
        elif case == running:
            running = None
        if word == "  FAILED  ":
            failed[case] = case
    if running:
        failed[running] = f"{running} did not end"
    for case in PYTEST_FAILURE.findall(output):
        failed[case] = case
    return failed.values()


def _skipped_by_gtest(output):
    begin = 0
    for end in GTEST_CASE.finditer(output):
        if end[1] == " RUN      ":
            begin = end.end()
        elif end[1] == "  SKIPPED " and begin:  # the list at the end has them again
            yield end[2], _reason(output[begin:end.start()])
        if end[1] != " RUN      ":
            begin = 0


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
