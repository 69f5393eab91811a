"""Addresses of sandboxes that cannot answer: the host refuses for them at once. An unanswered connect would end with
the client's own timeout; every test here checks that this does not happen."""

import contextlib
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


def test_a_paused_sandbox_refuses_new_connections_and_keeps_open_ones(daemon):
    sandbox = daemon.create("paused", ports=[{"port": EXECD}])
    address, published = sandbox.status["address"], sandbox.status["ports"][0]["host_port"]
    ways = [(address, EXECD), (address, NOBODY), ("127.0.0.1", published)]
    request = f"GET /ping HTTP/1.1\r\nHost: x\r\nX-EXECD-ACCESS-TOKEN: {sandbox.status['execd_token']}\r\n\r\n".encode()
    with socket.create_connection((address, EXECD), PATIENCE) as before:
        for _ in range(3):
            assert daemon.client.post("/v1/sandboxes/paused/pause").status_code == 204
            for way in ways:
                assert connect(*way)[0] == "ConnectionRefusedError", way
            before.sendall(request)
            assert daemon.client.post("/v1/sandboxes/paused/resume").status_code == 204
            assert before.recv(4096).startswith(b"HTTP/1.1 200 ")
            for way in (ways[0], ways[2]):
                outcome, connection = connect(*way)
                assert outcome == "connected", way
                with connection:
                    connection.sendall(request)
                    assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")


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
