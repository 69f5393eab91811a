"""Runs the official JavaScript SDK's suites (*.test.mjs, node's own test runner) against the server, straight to the
sandboxes and through the server's proxy."""

import os
import pathlib
import shutil
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent


@pytest.mark.parametrize("proxied", [False, True], ids=["direct", "proxy"])
@pytest.mark.parametrize("suite", sorted(HERE.glob("*.test.mjs")), ids=lambda path: path.name.split(".")[0])
def test_the_sdk_works(server, suite, proxied):
    node = shutil.which("node")
    assert node, "node is missing; run scripts/setup test"
    environment = {
        **{name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")},
        "SERVER_DOMAIN": f"127.0.0.1:{server.port}",
        "SERVER_KEY": server.key,
        "SERVER_PROXY": "1" if proxied else "",
    }
    command = [node, "--test", "--test-timeout=60000", "--test-reporter=spec", str(suite)]
    run = subprocess.run(command, env=environment, cwd=server.directory, stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert run.returncode == 0, f"node --test failed:\n{run.stdout}\n{server.log()[-3000:]}"
    # Node calls a file without tests a success.
    assert "ℹ pass 0" not in run.stdout and "ℹ pass" in run.stdout, run.stdout
