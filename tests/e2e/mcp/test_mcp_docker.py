"""Tools whose answer depends on the backend: with BACKEND=docker."""

from mcp_process import StdioMcp, tool


def test_a_backend_without_an_image_store_says_what_to_do(server):
    mcp = StdioMcp(server)
    refused = mcp.ask(tool(1, "image_list"))["result"]
    assert refused["isError"] and refused["_meta"]["opensandbox/error"]["code"] == "NOT_AVAILABLE", refused
    assert "sandbox_create" in refused["content"][0]["text"]
    assert mcp.leave() == 0
