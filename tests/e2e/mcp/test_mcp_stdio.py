"""The stdio transport with raw messages: versions, what goes wrong, and what is left when the client goes."""

import json
import signal
import subprocess
import sys

import pytest

from mcp_process import LATEST, StdioMcp, data_of, initialize, mcp_binary, mcp_environment, tool


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_each_protocol_version_is_spoken(server, version):
    mcp = StdioMcp(server, version=version)
    assert mcp.initialized["result"]["protocolVersion"] == version
    assert mcp.ask({"jsonrpc": "2.0", "id": "p", "method": "ping"})["result"] == {}
    assert mcp.leave() == 0


def test_an_unknown_version_is_answered_with_the_latest(server):
    mcp = StdioMcp(server, version="1999-01-01")
    assert mcp.initialized["result"]["protocolVersion"] == LATEST
    assert mcp.leave() == 0


def test_a_session_begins_with_initialize_and_has_one(server):
    mcp = StdioMcp(server, version=None)
    listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    assert mcp.ask(listing)["error"]["code"] == -32600
    # A client of a later, stateless revision asks this first and takes any error for "not that one".
    assert mcp.ask({"jsonrpc": "2.0", "id": 2, "method": "server/discover"})["error"]["code"] == -32601
    assert mcp.ask({"jsonrpc": "2.0", "id": 3, "method": "ping"})["result"] == {}
    assert mcp.ask({"jsonrpc": "2.0", "id": 4, "method": "initialize"})["error"]["code"] == -32602
    assert "result" in mcp.ask(initialize(id=5))
    assert mcp.ask(initialize(id=6))["error"]["code"] == -32600
    assert len(mcp.ask(listing)["result"]["tools"]) > 20
    assert mcp.leave() == 0


def test_messages_that_are_none_are_answered_and_forgotten(server):
    mcp = StdioMcp(server)
    rows = [
        (b"nonsense", -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"', -32700, None),
        (b"\xff\xfe", -32700, None),
        (b"[" * 200_000, -32700, None),
        (b'{"a":' * 100_000, -32700, None),
        (b"7", -32600, None),
        (b"[]", -32600, None),
        (b"[1]", -32600, None),
        (b'{"id":1,"method":"ping"}', -32600, 1),
        (b'{"jsonrpc":"2.0","id":2}', -32600, 2),
        (b'{"jsonrpc":"2.0","id":[],"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":3,"method":7}', -32600, 3),
        (b'{"jsonrpc":"2.0","id":4,"method":"ping","params":[1]}', -32602, 4),
        (b'{"jsonrpc":"2.0","id":5,"method":"tools/call"}', -32602, 5),
        (b'{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"command_run","arguments":[]}}', -32602, 6),
        (b'{"jsonrpc":"2.0","id":7,"method":"none/such"}', -32601, 7),
        (b'{"jsonrpc":"2.0","id":8,"method":"resources/read","params":{}}', -32602, 8),
        (b'{"jsonrpc":"2.0","id":"' + b"x" * 5000 + b'","method":"ping"}', -32600, None),
    ]
    for line, code, id in rows:
        mcp.send_bytes(line + b"\n")
        answer = mcp.receive()
        assert (answer["error"]["code"], answer["id"]) == (code, id), line[:100]
    # Nothing is answered to these.
    mcp.send_bytes(b"\n\r\n")
    for silent in [{"method": "notifications/none"}, {"method": "notifications/cancelled", "params": {"requestId": 99}},
                   {"method": "notifications/cancelled"}, {"id": 9, "result": {}}, {"method": "ping"}]:
        mcp.send({"jsonrpc": "2.0", **silent})
    assert mcp.ask({"jsonrpc": "2.0", "id": 10, "method": "ping"})["result"] == {}
    assert mcp.leave() == 0


def test_a_line_that_is_too_long_is_skipped(server):
    mcp = StdioMcp(server)
    for _ in range(40):
        mcp.send_bytes(b"x" * (1 << 20))
    mcp.send_bytes(b"\n")
    assert mcp.receive()["error"]["code"] == -32600
    assert mcp.ask({"jsonrpc": "2.0", "id": 1, "method": "ping"})["result"] == {}
    assert mcp.leave() == 0


def test_batches_belong_to_the_versions_that_had_them(server):
    batch = [{"jsonrpc": "2.0", "id": 1, "method": "ping"}, {"jsonrpc": "2.0", "method": "notifications/none"}, 7,
             {"jsonrpc": "2.0", "id": 2, "method": "ping"}]
    old = StdioMcp(server, version="2025-03-26")
    old.send(batch)
    answers = [old.receive() for _ in range(3)]
    assert [(answer["id"], "result" in answer) for answer in answers] == [(1, True), (None, False), (2, True)]
    assert old.leave() == 0
    new = StdioMcp(server)
    new.send(batch)
    answer = new.receive()
    assert (answer["id"], answer["error"]["code"]) == (None, -32600)
    assert new.ask({"jsonrpc": "2.0", "id": 3, "method": "ping"})["result"] == {}
    assert new.leave() == 0


def with_progress(message, token):
    message["params"]["_meta"] = {"progressToken": token}
    return message


def test_progress_is_complete_and_in_order(server):
    mcp = StdioMcp(server)
    answer = mcp.ask(with_progress(tool(1, "sandbox_create", image="host"), "made"))
    id = data_of(answer["result"])["sandbox_id"]
    told = [note["params"] for note in mcp.others if note["method"] == "notifications/progress"]
    assert [(each["progressToken"], each["progress"], each["total"]) for each in told] == [
        ("made", 0.1, 1), ("made", 0.3, 1), ("made", 0.8, 1), ("made", 1, 1)]
    mcp.others.clear()
    mcp.ask(with_progress(tool(2, "command_run", sandbox_id=id, command="seq 3; echo end >&2"), 5))
    told = [note["params"] for note in mcp.others if note["method"] == "notifications/progress"]
    assert {each["progressToken"] for each in told} == {5}
    assert sorted("".join(each["message"] for each in told).split()) == ["1", "2", "3", "end"]
    assert told[-1]["progress"] == 10  # bytes of output
    assert mcp.leave() == 0


def test_an_id_that_still_runs_is_refused(server):
    mcp = StdioMcp(server)
    id = mcp.call("sandbox_create", image="host")["sandbox_id"]
    run = with_progress(tool("same", "command_run", sandbox_id=id, command="echo begun; sleep 600"), 7)
    mcp.send(run)
    begun = mcp.receive()
    while begun["method"] != "notifications/progress":
        begun = mcp.receive()
    assert begun["params"]["progressToken"] == 7
    assert begun["params"]["message"] == "begun\n"
    assert mcp.ask(run)["error"]["code"] == -32600
    assert mcp.leave() == 0  # although its command would run for ten minutes


def test_a_client_that_leaves_takes_its_sandboxes_along(server):
    mcp = StdioMcp(server)
    mine = mcp.call("sandbox_create", image="host")["sandbox_id"]
    other = server.create()["id"]
    mcp.call("sandbox_connect", sandbox_id=other)
    assert mcp.leave() == 0
    assert server.state(mine) == 404
    assert server.state(other) == "Running"  # it was only connected to
    server.delete(other)


def test_sigterm_cleans_up_too(server):
    mcp = StdioMcp(server)
    mine = mcp.call("sandbox_create", image="host")["sandbox_id"]
    assert mcp.terminate() == 0
    assert server.state(mine) == 404


def test_keep_leaves_them(server):
    mcp = StdioMcp(server, "--keep")
    mine = mcp.call("sandbox_create", image="host")["sandbox_id"]
    assert mcp.leave() == 0
    assert server.state(mine) == "Running"
    server.delete(mine)


def test_kept_sandboxes_run_nothing_of_calls_that_ended(server):
    mcp = StdioMcp(server, "--keep")
    mine = mcp.call("sandbox_create", image="host")["sandbox_id"]
    mcp.send(with_progress(tool("long", "command_run", sandbox_id=mine, command="echo $$; exec sleep 600"), "t"))
    while (said := mcp.receive())["method"] != "notifications/progress":
        pass
    pid = int(said["params"]["message"])
    assert mcp.leave() == 0
    assert server.run(mine, f"tail --pid={pid} -f /dev/null; echo over", timeout=30_000) == "over"
    server.delete(mine)


# Starts opensandbox-mcp as its child, makes a sandbox, says its id and waits to be killed.
CLIENT = """
import json, subprocess, sys
child = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def send(message):
    child.stdin.write(json.dumps(message) + "\\n")
    child.stdin.flush()
for message in json.loads(sys.stdin.readline()):
    send(message)
for line in child.stdout:
    answer = json.loads(line)
    if answer.get("id") == "create":
        print(json.loads(answer["result"]["content"][0]["text"])["sandbox_id"], flush=True)
"""


def test_a_client_that_is_killed_takes_its_sandboxes_along(server):
    client = subprocess.Popen([sys.executable, "-c", CLIENT, mcp_binary(), "--log-level", "warn"], text=True,
                              env=mcp_environment(server), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)
    client.stdin.write(json.dumps([initialize(), tool("create", "sandbox_create", image="host")]) + "\n")
    client.stdin.flush()
    id = client.stdout.readline().strip()
    assert server.state(id) == "Running"
    client.send_signal(signal.SIGKILL)
    client.wait()
    assert client.stderr.read() == ""  # ends when its child does
    assert server.state(id) == 404
    for pipe in (client.stdin, client.stdout, client.stderr):
        pipe.close()


def test_stdout_is_for_the_protocol_alone(server):
    lines = json.dumps(initialize()) + "\n" + json.dumps(tool(1, "sandbox_get_info", sandbox_id="none")) + "\n"
    run = subprocess.run([mcp_binary(), "--log-level", "debug"], input=lines.encode(), capture_output=True,
                         env=mcp_environment(server))
    assert run.returncode == 0
    assert run.stderr
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    assert answers[0]["id"] == 0 and all(answer["jsonrpc"] == "2.0" for answer in answers)


def test_input_from_a_file(server, tmp_path):
    messages = [initialize(), {"jsonrpc": "2.0", "id": 1, "method": "ping"}]
    (tmp_path / "in").write_text("".join(json.dumps(message) + "\n" for message in messages))
    with open(tmp_path / "in") as source, open(tmp_path / "out", "w") as target:
        run = subprocess.run([mcp_binary()], stdin=source, stdout=target, stderr=subprocess.PIPE,
                             env=mcp_environment(server))
    assert run.returncode == 0, run.stderr
    answers = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert [answer["id"] for answer in answers] == [0, 1]


def test_a_wrong_key_and_no_server_are_told(server):
    wrong = StdioMcp(server, "--api-key", "guess")
    answer = wrong.ask(tool(1, "sandbox_list"))["result"]
    assert answer["isError"] and answer["_meta"]["opensandbox/error"]["status"] == 401, answer
    assert wrong.leave() == 0
    nobody = StdioMcp(server, "--domain", "127.0.0.1:1")
    answer = nobody.ask(tool(1, "sandbox_list"))["result"]
    assert answer["isError"] and answer["_meta"]["opensandbox/error"]["code"] == "NETWORK_ERROR", answer
    assert nobody.leave() == 0


@pytest.mark.parametrize("args, says", [
    (["--nonsense"], "there is no option"),
    (["--transport", "pigeon"], "stdio or streamable-http"),
    (["--port"], "needs a value"),
    (["--transport=streamable-http", "--host=0.0.0.0"], "--token-file"),
    (["--transport=streamable-http", "--token-file=/nonexistent"], "cannot read"),
    (["--api-key-file=/dev/null"], "cannot read"),
])
def test_wrong_options_are_named(server, args, says):
    run = subprocess.run([mcp_binary(), *args], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                         env=mcp_environment(server))
    assert run.returncode in (1, 2) and says in run.stderr and run.stdout == "", run


def test_help_and_version(server):
    usage = subprocess.run([mcp_binary(), "--help"], capture_output=True, text=True, check=True).stdout
    assert "--transport" in usage
    assert subprocess.run([mcp_binary(), "--version"], capture_output=True, text=True, check=True).stdout.startswith("opensandbox-mcp ")
