"""How long answers get, in bytes, and how much memory long output takes. How clients handle them is in limits.test.mjs;
docs/mcp.md has the figures in tokens."""

import json

import pytest

from mcp_process import HttpMcp, StdioMcp, data_of, last_message, tool

MOST = 65536  # of an answer
LIST = {"jsonrpc": "2.0", "id": "list", "method": "tools/list"}
MUCH = ["seq 100000", "head -c 50000000 /dev/zero | tr '\\0' x", "head -c 5000000 /dev/zero"]


def peak_memory(process):
    """In MiB."""
    with open(f"/proc/{process.pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) // 1024


def answer_bytes(mcp, message):
    """Sends a request over stdio; the answer's line without its end."""
    mcp.send(message)
    while True:
        line = mcp.process.stdout.readline()[:-1]
        if "method" not in json.loads(line):
            return line


def test_the_list_of_tools_is_short(server):
    few, every = StdioMcp(server), StdioMcp(server, "--all-tools")
    assert len(answer_bytes(few, LIST)) <= 20_000
    assert len(answer_bytes(every, LIST)) <= 30_000
    assert few.leave() == 0 and every.leave() == 0


def test_no_answer_is_longer_than_the_limit(server):
    mcp = StdioMcp(server)
    id = mcp.call("sandbox_create", image="host")["sandbox_id"]
    for command in MUCH:
        answer = answer_bytes(mcp, tool("x" * 1000, "command_run", sandbox_id=id, command=command,
                                        max_output_bytes=4_000_000))
        assert MOST - 2000 < len(answer) <= MOST, command
        assert data_of(json.loads(answer)["result"])["truncated"]
    # 49 KB of output, as in docs/mcp.md.
    assert len(answer_bytes(mcp, tool(1, "command_run", sandbox_id=id, command="seq 10000"))) < 25_000
    assert peak_memory(mcp.process) < 100, "it held all of the output"
    assert mcp.leave() == 0


@pytest.mark.parametrize("most", [4096, 1_000_000])
def test_the_limit_can_be_set(server, most):
    mcp = StdioMcp(server, "--max-reply-bytes", str(most))
    id = mcp.call("sandbox_create", image="host")["sandbox_id"]
    answer = answer_bytes(mcp, tool(1, "command_run", sandbox_id=id, command="seq 1000000", max_output_bytes=4_000_000))
    assert most * 0.6 < len(answer) <= most
    assert mcp.leave() == 0


def test_long_output_over_http_takes_little_memory(server):
    mcp = HttpMcp(server)
    session = mcp.open_session()
    id = mcp.call(session, "sandbox_create", image="host")["sandbox_id"]
    for command in MUCH:
        message = tool("run", "command_run", sandbox_id=id, command=command)
        message["params"]["_meta"] = {"progressToken": "p"}
        response = mcp.post(message, session)
        assert len(json.dumps(last_message(response))) <= MOST
    assert peak_memory(mcp.process) < 100
    assert mcp.stop() == 0
