"""The official Python client, unmodified, with long results. It takes no event of more than 1 MiB over HTTP."""

import asyncio
import contextlib
import json

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from mcp_process import HttpMcp, mcp_binary, mcp_environment

LINES = "seq 100000"
ONE_LINE = "printf begin; head -c 50000000 /dev/zero | tr '\\0' x; echo end"
QUOTES = "head -c 1000000 /dev/zero | tr '\\0' '\"'; echo end"


@contextlib.asynccontextmanager
async def connected(server, transport, args):
    async with contextlib.AsyncExitStack() as stack:
        if transport == "http":
            listening = HttpMcp(server, *args)
            stack.callback(listening.stop)
            streams = await stack.enter_async_context(streamable_http_client(listening.url))
        else:
            parameters = StdioServerParameters(command=mcp_binary(), args=["--log-level", "warn", *args],
                                               env=mcp_environment(server))
            streams = await stack.enter_async_context(stdio_client(parameters))
        session = await stack.enter_async_context(ClientSession(streams[0], streams[1]))
        await session.initialize()
        await session.list_tools()  # from now on it compares results with output schemas, where there are any
        yield session


async def call(session, name, **arguments):
    result = await session.call_tool(name, arguments)
    assert not result.is_error, result.content[0].text[:1000]
    return result


async def plain(session, name, **arguments):
    result = await call(session, name, **arguments)
    (block,) = result.content
    assert result.structured_content is None and len(block.text.encode()) < 65536
    return json.loads(block.text)


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_long_output_is_cut(server, transport):
    async def use():
        async with connected(server, transport, []) as session:
            id = (await plain(session, "sandbox_create", image="host"))["sandbox_id"]
            lines = await plain(session, "command_run", sandbox_id=id, command=LINES)
            assert lines["stdout"].startswith("1\n2\n") and lines["stdout"].endswith("\n100000\n")
            for command, begin in ((ONE_LINE, "beginxx"), (QUOTES, '""')):
                run = await plain(session, "command_run", sandbox_id=id, command=command, max_output_bytes=4_000_000)
                assert run["stdout"].startswith(begin) and run["stdout"].endswith("end\n")
                assert "left out" in run["stdout"]
            await plain(session, "sandbox_kill", sandbox_id=id)

    asyncio.run(use())


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_published_results_come_in_pages_that_it_takes(server, transport):
    async def use():
        async with connected(server, transport, ["--published-results"]) as session:
            made = await call(session, "sandbox_create", image="host")
            id = made.structured_content["sandbox_id"]
            run = (await call(session, "command_run", sandbox_id=id, command="seq 20000")).structured_content
            lines, pages = [each["text"] for each in run["logs"]["stdout"]], 1
            page = run
            while page["next_cursor"] is not None:
                page = (await call(session, "command_output", sandbox_id=id, execution_id=run["id"],
                                   cursor=page["next_cursor"])).structured_content
                lines += [each["text"] for each in page["logs"]["stdout"]]
                pages += 1
            assert lines == [str(n) for n in range(1, 20001)] and pages > 2
            for command in (ONE_LINE, QUOTES):
                run = (await call(session, "command_run", sandbox_id=id, command=command,
                                  max_output_bytes=4_000_000)).structured_content
                assert run["truncated"] and run["next_cursor"]
            await call(session, "command_run", sandbox_id=id, command="{ " + QUOTES + "; } > /root/quotes")
            read = await call(session, "file_read", sandbox_id=id, path="/root/quotes", max_bytes=8_000_000)
            assert read.structured_content["next_range"]
            await call(session, "sandbox_kill", sandbox_id=id)

    asyncio.run(use())
