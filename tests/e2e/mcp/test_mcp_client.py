"""Runs the official TypeScript client's suites (*.test.mjs, node's own test runner) over both transports."""

import pathlib
import shutil
import subprocess

import pytest

from mcp_process import HttpMcp, mcp_binary, mcp_environment

HERE = pathlib.Path(__file__).resolve().parent


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("suite", sorted(HERE.glob("*.test.mjs")), ids=lambda path: path.name.split(".")[0])
def test_the_client_works(server, suite, transport):
    node = shutil.which("node")
    assert node, "node is missing; run scripts/setup test"
    args = ["--all-tools"] + (["--published-results"] if suite.name.startswith("published") else [])
    environment = mcp_environment(server, MCP_BINARY=mcp_binary(), MCP_ARGS=" ".join(args))
    listening = None
    if transport == "http":
        listening = HttpMcp(server, *args, token="a-token-for-tests")
        environment |= {"MCP_URL": listening.url, "MCP_TOKEN": listening.token}
    try:
        command = [node, "--test", "--test-timeout=120000", "--test-reporter=spec", str(suite)]
        run = subprocess.run(command, env=environment, cwd=server.directory, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    finally:
        if listening:
            assert listening.stop() == 0
    assert run.returncode == 0, f"node --test failed:\n{run.stdout}\n{server.log()[-3000:]}"
    # Node calls a file without tests a success.
    assert "ℹ pass 0" not in run.stdout and "ℹ pass" in run.stdout, run.stdout
