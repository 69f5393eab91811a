"""Addresses of sandboxes that cannot answer: the host refuses for them at once. An unanswered connect would end with
the client's own timeout; every test here checks that this does not happen."""

import contextlib
import json
import socket

import httpx
import pytest
from hammer import EXECD, NOBODY, PATIENCE, Hammer, connect

NAMED = [{"kind": "named", "source": "data", "target": "/data", "create": True}]


@pytest.mark.parametrize("volumes", [[], NAMED], ids=["without volumes", "with a volume"])
@pytest.mark.parametrize("first", ["running", "paused"])
def test_a_removed_sandbox_refuses_at_once(daemon, volumes, first):
    for i in range(10):
        sandbox = daemon.create(f"removed-{i}", volumes=volumes)
        hammer = Hammer(sandbox.status["address"])
        if first == "paused":
            assert daemon.client.post(f"/v1/sandboxes/{sandbox.id}/pause").status_code == 204
        sandbox.remove()
        assert "ConnectionRefusedError" in hammer.finish()


@pytest.mark.parametrize("volumes", [[], NAMED], ids=["without volumes", "with a volume"])
def test_a_sandbox_whose_entrypoint_ends_refuses_at_once(daemon, volumes):
    for i in range(10):
        sandbox = daemon.create(f"ended-{i}", volumes=volumes, entrypoint=["sleep", "1000"])
        hammer = Hammer(sandbox.status["address"])
        # The command goes with the sandbox, so its answer may be cut off.
        with contextlib.suppress(httpx.HTTPError, AssertionError):
            sandbox.output("kill -9 $(pidof sleep)")
        daemon.wait_for_end(sandbox.id)
        assert "ConnectionRefusedError" in hammer.finish()
        sandbox.remove()


ECHO = """
import socket
listener = socket.create_server(('0.0.0.0', 9000))
print('ready', flush=True)
while True:
    connection, _ = listener.accept()
    connection.sendall(b'hello')
    while piece := connection.recv(4096):
        connection.sendall(piece)
"""


def test_a_paused_sandbox_refuses_new_connections_and_keeps_those_of_its_own_servers(daemon):
    sandbox = daemon.create("paused", ports=[{"port": EXECD}], entrypoint=["python3", "-c", ECHO])
    address, published = sandbox.status["address"], sandbox.status["ports"][0]["host_port"]
    ways = [(address, EXECD), (address, NOBODY), ("127.0.0.1", published)]
    request = f"GET /ping HTTP/1.1\r\nHost: x\r\nX-EXECD-ACCESS-TOKEN: {sandbox.status['execd_token']}\r\n\r\n".encode()
    daemon.said("paused", lambda text: "ready\n" in text)
    with socket.create_connection((address, 9000), PATIENCE) as before:
        assert before.recv(5) == b"hello"
        for _ in range(3):
            assert daemon.client.post("/v1/sandboxes/paused/pause").status_code == 204
            for way in ways:
                assert connect(*way)[0] == "ConnectionRefusedError", way
            before.sendall(b"x")
            assert daemon.client.post("/v1/sandboxes/paused/resume").status_code == 204
            assert before.recv(1) == b"x"
            for way in (ways[0], ways[2]):
                outcome, connection = connect(*way)
                assert outcome == "connected", way
                with connection:
                    connection.sendall(request)
                    assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")


def test_a_client_that_keeps_its_connection_to_execd_is_refused_too(daemon):
    """A call on the open connection would wait for the end of the pause."""
    sandbox = daemon.create("kept")
    with httpx.Client(base_url=f"http://{sandbox.status['address']}:{EXECD}", headers=sandbox.execd.headers,
                      timeout=PATIENCE, trust_env=False) as client:
        for _ in range(3):
            assert client.get("/ping").status_code == 200
            assert daemon.client.post("/v1/sandboxes/kept/pause").status_code == 204
            with pytest.raises(httpx.ConnectError):
                client.get("/ping")
            assert daemon.client.post("/v1/sandboxes/kept/resume").status_code == 204


def test_the_stream_of_a_running_command_outlives_a_pause(daemon):
    sandbox = daemon.create("stream")
    sandbox.output("mkfifo /tmp/go")
    with sandbox.execd.stream("POST", "/command", json={"command": "echo one; read line </tmp/go; echo two"}) as stream:
        texts = (json.loads(line).get("text") for line in stream.iter_lines() if line)
        assert "one" in texts
        assert daemon.client.post("/v1/sandboxes/stream/pause").status_code == 204
        assert daemon.client.post("/v1/sandboxes/stream/resume").status_code == 204
        sandbox.output("echo >/tmp/go")
        assert "two" in texts


def test_a_paused_sandbox_refuses_while_sandboxd_is_down_and_after_its_restart(make_daemon):
    daemon = make_daemon()
    sandbox = daemon.create("paused")
    other = daemon.create("running")
    way = (sandbox.status["address"], EXECD)
    assert daemon.client.post("/v1/sandboxes/paused/pause").status_code == 204
    for end in (daemon.kill, daemon.stop):
        end()
        assert connect(*way)[0] == "ConnectionRefusedError"
        daemon.start()
        assert connect(*way)[0] == "ConnectionRefusedError"
        assert connect(other.status["address"], EXECD)[0] == "connected"
    assert daemon.client.post("/v1/sandboxes/paused/resume").status_code == 204
    assert connect(*way)[0] == "connected"
