#!/usr/bin/env python3
"""The last lines of run_ctest.py, for a small project with one test of every kind."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent

GTEST_SKIP = """[ RUN      ] Things.Rest
[       OK ] Things.Rest (0 ms)
[ RUN      ] Things/Few.Work/pids
../../src/things_test.cc:7: Skipped
needs root
[  SKIPPED ] Things/Few.Work/pids (0 ms)
[ RUN      ] Things.AreMute
[  SKIPPED ] Things.AreMute (0 ms)
[  PASSED  ] 1 test.
[  SKIPPED ] 2 tests, listed below:
[  SKIPPED ] Things/Few.Work/pids
[  SKIPPED ] Things.AreMute
"""
GTEST_FAILURES = """[ RUN      ] Things.Work
../../src/things_test.cc:9: Failure
[  FAILED  ] Things.Work (3 ms)
[ RUN      ] Things.Rest
[       OK ] Things.Rest (0 ms)
[ RUN      ] Things/Few.Work/0
no newline here[  FAILED  ] Things/Few.Work/0, where GetParam() = 7 (0 ms)
[  PASSED  ] 1 test.
[  FAILED  ] 2 tests, listed below:
[  FAILED  ] Things.Work
[  FAILED  ] Things/Few.Work/0, where GetParam() = 7
"""
GTEST_CRASH = """[ RUN      ] Things.Work
[       OK ] Things.Work (3 ms)
[ RUN      ] Things.Crash
AddressSanitizer: heap-use-after-free
"""
PYTEST_SKIP = """..s..
=========================== short test summary info ============================
SKIPPED [2] ../../tests/e2e/test_things.py:12: needs a moon
3 passed, 2 skipped in 0.01s
"""
PYTEST_FAILURES = """.F.E
=========================== short test summary info ============================
FAILED ../../tests/e2e/test_things.py::test_all[in time] - AssertionError: assert 1 == 2
ERROR ../../tests/e2e/test_others.py::test_more
1 failed, 3 passed, 1 error in 61.01s (0:01:01)
"""


class RunCtest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory(prefix="osb-ctest-")
        self.addCleanup(self.directory.cleanup)

    def build(self, name, tests):
        """A build directory as CMake leaves it, with tests {name: (output, exit code)}."""
        build = pathlib.Path(self.directory.name) / name
        build.mkdir()
        lines = []
        for number, (test, (output, code)) in enumerate(tests.items()):
            text = build / f"{number}.txt"
            text.write_text(output)
            lines.append(f'add_test([=[{test}]=] sh -c "cat {text}; exit {code}")')
        (build / "CTestTestfile.cmake").write_text("\n".join(lines))
        return build

    def run_tests(self, *arguments):
        done = subprocess.run([sys.executable, "-B", HERE / "run_ctest.py", *map(str, arguments)], capture_output=True,
                              text=True, cwd=self.directory.name)
        return done.returncode, done.stdout.splitlines()

    def test_all_passed(self):
        code, lines = self.run_tests(self.build("a", {"one": ("fine\n", 0), "two": ("fine\n", 0)}))
        self.assertEqual(code, 0)
        self.assertEqual(lines[-2:], ["No test was skipped.", "2 passed, 0 failed, 0 skipped"])

    def test_skipped_tests_say_why(self):
        build = self.build("a", {"unit.things": (GTEST_SKIP, 0), "e2e.things": (PYTEST_SKIP, 0), "mute": ("skip me", 0)})
        with open(build / "CTestTestfile.cmake", "a") as file:
            file.write('\nset_tests_properties(mute PROPERTIES SKIP_REGULAR_EXPRESSION "skip me")\n')
        code, lines = self.run_tests(build)
        self.assertEqual(code, 0)
        self.assertEqual(lines[-6:], [
            "Skipped tests:",
            "  mute: the test gives no reason",
            "  unit.things, Things/Few.Work/pids: needs root",
            "  unit.things, Things.AreMute: the test gives no reason",
            "  e2e.things, test_things.py:12: needs a moon (2 cases)",
            "2 passed (4 cases), 0 failed, 1 skipped (and 4 cases inside tests that passed)"])

    def test_failed_cases_are_named(self):
        code, lines = self.run_tests(self.build("a", {
            "unit.things": (GTEST_FAILURES, 1), "unit.crash": (GTEST_CRASH, 134), "e2e.things": (PYTEST_FAILURES, 1)}))
        self.assertNotEqual(code, 0)
        self.assertEqual(lines[-6:], [
            "Failed tests:",
            "  unit.things: Things.Work, Things/Few.Work/0",
            "  unit.crash: Things.Crash did not end",
            "  e2e.things: test_things.py::test_all[in time], test_others.py::test_more",
            "No test was skipped.",
            "0 passed, 3 failed, 0 skipped"])

    def test_reasons_are_found_after_much_output(self):
        _, lines = self.run_tests(self.build("a", {"e2e.things": ("much\n" * 100_000 + PYTEST_SKIP, 0)}))
        self.assertIn("  e2e.things, test_things.py:12: needs a moon (2 cases)", lines)

    def test_failed_tests_are_named_and_fail_the_run(self):
        code, lines = self.run_tests(self.build("a", {"good": ("", 0), "bad": ("", 3)}))
        self.assertNotEqual(code, 0)
        self.assertEqual(lines[-4:], ["Failed tests:", "  bad", "No test was skipped.", "1 passed, 1 failed, 0 skipped"])

    def test_a_program_that_is_missing_is_a_failure(self):
        build = self.build("a", {})
        (build / "CTestTestfile.cmake").write_text('add_test(lost "/nonexistent/program")\n')
        code, lines = self.run_tests(build)
        self.assertNotEqual(code, 0)
        self.assertEqual(lines[-1], "0 passed, 1 failed, 0 skipped")


if __name__ == "__main__":
    unittest.main()
