#!/usr/bin/env python3
"""The harness itself: what comes back from the machine, and what does not."""

import os
import pathlib
import subprocess
import sys
import unittest

HARNESS = pathlib.Path(__file__).resolve().parent / "run_in_uml.py"


def run(*arguments: str, options: tuple = ()) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-B", HARNESS, *options, "--", *arguments], capture_output=True, text=True)


class RunInUml(unittest.TestCase):
    def test_a_program_has_a_kernel_of_its_own(self):
        mark = f"/usr/osb-uml-{os.getpid()}"
        script = f"""
            echo to stdout; echo to stderr >&2
            echo controllers: $(cat /sys/fs/cgroup/cgroup.controllers)
            echo member of: $(cat /proc/self/cgroup)
            echo links: $(ls /sys/class/net)
            echo state: $(stat -f -c %T /var/lib/opensandbox)
            touch {mark} /var/lib/opensandbox/x && echo written
            echo "args: $1 $2"
            exit 7
        """
        done = run("sh", "-c", script, "sh", "a b", "it's", options=("--disk", "64M"))
        self.assertEqual(done.returncode, 7, done.stderr)
        lines = done.stdout.splitlines()
        for line in ["to stdout", "to stderr", "controllers: cpu io memory pids", "member of: 0::/", "links: lo",
                     "state: ext2/ext3", "written", "args: a b it's"]:
            self.assertIn(line, lines)
        self.assertFalse(os.path.exists(mark), "the host stays as it is")

    def test_it_is_switched_off_when_the_time_is_up(self):
        done = run("sh", "-c", "echo begun; sleep 1000", options=("--timeout", "15"))
        self.assertEqual(done.returncode, 124)
        self.assertIn("begun", done.stdout)
        self.assertIn("switched off after 15", done.stderr)

    def test_a_crash_is_not_a_success(self):
        done = run("sh", "-c", "echo c >/proc/sysrq-trigger; busybox poweroff -f")
        self.assertEqual(done.returncode, 125)
        self.assertIn("ended without an exit status", done.stderr)


if __name__ == "__main__":
    unittest.main()
