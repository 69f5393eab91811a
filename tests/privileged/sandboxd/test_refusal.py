"""Addresses of sandboxes that cannot answer: the host refuses for them at once. A connect that nobody answers ends with
the client's own timeout, which is what every test here looks for."""

import contextlib
import os
import socket
import threading

import httpx
import pytest

EXECD, NOBODY = 44772, 9
PATIENCE = 20  # far more than a loaded machine needs for an answer
NAMED = [{"kind": "named", "source": "data", "target": "/data", "create": True}]


def connect(address, port):
    """How a connect ends, and its socket if it is connected."""
    try:
        return "connected", socket.create_connection((address, port), PATIENCE)
    except TimeoutError:
        return "timeout", None
    except OSError as error:
        return type(error).__name__ if isinstance(error, ConnectionError) else os.strerror(error.errno), None


def how_it_ends(connection):
    with connection:
        try:
            while connection.recv(4096):
                pass
        except TimeoutError:
            return "timeout"
        except ConnectionError:
            pass
        return "closed"


class Hammer:
    """Threads that connect to an address again and again, from before its sandbox ends until it is certainly gone."""

    def __init__(self, address):
        self.address = address
        self.outcomes = {}
        self.open = []
        self.removed = threading.Event()
        self.connected = threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(port,)) for port in (EXECD, EXECD, NOBODY)]
        for thread in self.threads:
            thread.start()
        assert self.connected.wait(60)

    def run(self, port):
        kept = []
        left = 200  # after the removal: the kernel frees namespaces and interfaces in its own time
        while left > 0:
            if self.removed.is_set():
                left -= 1
            outcome, connection = connect(self.address, port)
            self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
            if outcome == "timeout":
                return
            if connection:
                self.connected.set()
                kept.append(connection)
                if len(kept) > 20:
                    kept.pop(0).close()
        self.open += kept

    def finish(self):
        self.removed.set()
        for thread in self.threads:
            thread.join()
        ends = {how_it_ends(connection) for connection in self.open}
        # A connection that is made and ended while its client is being told of it is a broken pipe to the client.
        assert set(self.outcomes) <= {"connected", "ConnectionRefusedError", "ConnectionResetError", "BrokenPipeError",
                                      "No route to host"}, self.outcomes
        assert ends <= {"closed"}, ends
        return self.outcomes


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
