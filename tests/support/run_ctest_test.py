#!/usr/bin/env python3
"""The last lines of run_ctest.py, for a small project with one test of every kind."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent

GTEST_SKIP = """[ RUN      ] Things.Work
../../src/things_test.cc:7: Skipped
needs root
[  SKIPPED ] Things.Work (0 ms)
[  PASSED  ] 0 tests.
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] Things.Work
"""
PYTEST_SKIP = """..s..
=========================== short test summary info ============================
SKIPPED [2] ../../tests/e2e/test_things.py:12: needs a moon
3 passed, 2 skipped in 0.01s
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
            lines += [f'add_test([=[{test}]=] sh -c "cat {text}; exit {code}")',
                      f'set_tests_properties([=[{test}]=] PROPERTIES SKIP_REGULAR_EXPRESSION "\\\\[  SKIPPED \\\\]")']
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
        build = self.build("a", {"Things.Work/pids  # GetParam() = 1": (GTEST_SKIP, 0), "e2e.things": (PYTEST_SKIP, 0),
                                 "mute": ("[  SKIPPED ] mute\n", 0)})
        code, lines = self.run_tests(build)
        self.assertEqual(code, 0)
        self.assertEqual(lines[-5:], [
            "Skipped tests:",
            "  Things.Work/pids: needs root",
            "  mute: the test gives no reason",
            "  e2e.things, test_things.py:12: needs a moon (2 cases)",
            "1 passed, 0 failed, 2 skipped (and 2 cases inside tests that passed)"])

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
