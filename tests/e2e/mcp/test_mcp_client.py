"""Runs the official TypeScript client's suites (*.test.mjs, node's own test runner) over both transports."""

import pathlib

import pytest

from mcp_process import HttpMcp, mcp_binary, mcp_environment
from node_suite import run_node_suite

HERE = pathlib.Path(__file__).resolve().parent


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("suite", sorted(HERE.glob("*.test.mjs")), ids=lambda path: path.name.split(".")[0])
def test_the_client_works(server, suite, transport):
    args = ["--all-tools"] + (["--published-results"] if suite.name.startswith("published") else [])
    environment = mcp_environment(server, MCP_BINARY=mcp_binary(), MCP_ARGS=" ".join(args))
    listening = None
    if transport == "http":
        listening = HttpMcp(server, *args, token="a-token-for-tests")
        environment |= {"MCP_URL": listening.url, "MCP_TOKEN": listening.token}
    try:
        run_node_suite(suite, environment, server.directory, server.log)
    finally:
        if listening:
            assert listening.stop() == 0
