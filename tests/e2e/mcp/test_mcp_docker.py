"""Tools whose answer depends on the backend, on a real Docker engine."""

import pytest

from docker_engine import Engine
from mcp_process import StdioMcp, tool
from server_process import Server


@pytest.fixture(scope="module")
def docker_server():
    engine = Engine()
    running = Server(engine)
    yield running
    running.close()
    engine.close()


def test_a_backend_without_an_image_store_says_what_to_do(docker_server):
    mcp = StdioMcp(docker_server)
    refused = mcp.ask(tool(1, "image_list"))["result"]
    assert refused["isError"] and refused["_meta"]["opensandbox/error"]["code"] == "NOT_AVAILABLE", refused
    assert "sandbox_create" in refused["content"][0]["text"]
    assert mcp.leave() == 0
