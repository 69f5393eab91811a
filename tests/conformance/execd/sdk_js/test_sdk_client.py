"""Runs the official JavaScript SDK's suites (*.test.mjs, node's own test runner) against an execd: straight, and
through its own port proxy, where Docker's bridge mode sends all SDK traffic."""

import os
import pathlib
import shutil
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent


@pytest.mark.parametrize("proxied", [False, True], ids=["direct", "proxy"])
@pytest.mark.parametrize("suite", sorted(HERE.glob("*.test.mjs")), ids=lambda path: path.name.split(".")[0])
def test_the_sdk_works(token_execd, suite, proxied):
    node = shutil.which("node")
    assert node, "node is missing; run scripts/setup test"
    base_url = token_execd.url + (f"/proxy/{token_execd.port}" if proxied else "")
    environment = {
        **os.environ,
        "EXECD_BASE_URL": base_url,
        "EXECD_TOKEN": token_execd.token,
        "EXECD_TMP": str(token_execd.tmp),
        "NO_PROXY": "127.0.0.1",
    }
    command = [node, "--test", "--test-timeout=60000", "--test-reporter=spec", str(suite)]
    run = subprocess.run(command, env=environment, cwd=token_execd.tmp, stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert run.returncode == 0, f"node --test failed:\n{run.stdout}"
    # Node calls a file without tests a success.
    assert "ℹ pass 0" not in run.stdout and "ℹ pass" in run.stdout, run.stdout
