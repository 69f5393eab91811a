"""Runs a suite of node's own test runner (*.test.mjs)."""

import shutil
import subprocess

# Of a whole suite. Debian 12's node (18) has no --test-timeout.
PATIENCE = 600


def run_node_suite(suite, environment, cwd, log=lambda: ""):
    """Fails with the runner's output, and the end of what `log` says then, if a test of the suite fails or none ran."""
    node = shutil.which("node")
    assert node, "node is missing; run scripts/setup test"
    command = [node, "--test", "--test-reporter=spec", str(suite)]
    try:
        run = subprocess.run(command, env=environment, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired as error:
        output = (error.output or b"").decode(errors="replace")
        raise AssertionError(f"node --test did not end within {PATIENCE} s:\n{output}\n{log()[-3000:]}") from None
    assert run.returncode == 0, f"node --test failed:\n{run.stdout}\n{log()[-3000:]}"
    # Node calls a file without tests a success.
    assert "ℹ pass 0" not in run.stdout and "ℹ pass" in run.stdout, run.stdout
