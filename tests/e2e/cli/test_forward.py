"""osb port-forward: TCP to the sandbox's address, or in a tunnel of execd's."""

import contextlib
import json
import os
import signal
import socket

import pytest
from backend import backend
from server_process import Server

REVERSE = """
import socket
listener = socket.create_server(('127.0.0.1', 9000))
print('ready', flush=True)
while True:
    connection, _ = listener.accept()
    data = b''
    while piece := connection.recv(65536):
        data += piece
    connection.sendall(data[::-1])
    connection.close()
"""


@pytest.fixture(params=["bridge", "host"] if backend() == "docker" else ["bridge"])
def server(request, server):
    """In the host's network the sandbox's loopback is the host's."""
    if request.param == "bridge":
        yield server
        return
    other = Server(server.daemon, settings={"docker": {"network_mode": "host"}})
    yield other
    other.close()


@contextlib.contextmanager
def forwarding(osb, sandbox, port, *root_options):
    with osb.start(*root_options, "port-forward", sandbox, f":{port}", "-o", "json") as process:
        try:
            yield process
        finally:
            process.kill()  # if it still runs: a test has failed


def begin(process):
    """The local port that it tells."""
    told = json.loads(process.stdout.readline())
    assert told["protocol"] == "tcp"
    return told["local_port"]


PROXY = "--use-server-proxy"


@pytest.mark.parametrize("way", [[], [PROXY]], ids=["directly", "through the server"])
def test_any_protocol_reaches_a_server_on_the_sandboxes_loopback(osb, sandbox, way):
    """As most development servers listen; with ends on each side."""
    with osb.start("exec", sandbox, "python3", "-c", REVERSE) as listening:
        assert listening.stdout.readline() == b"ready\n"
        try:
            with forwarding(osb, sandbox, 9000, *way) as process:
                port = begin(process)
                for size in (1, 200_000, 3_000_000):
                    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
                        sent = os.urandom(size)
                        connection.sendall(sent)
                        connection.shutdown(socket.SHUT_WR)
                        got = b""
                        while piece := connection.recv(65536):
                            got += piece
                        assert got == sent[::-1]
                with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
                    process.send_signal(signal.SIGTERM)
                    assert process.wait(60) == 143
                    assert connection.recv(1) == b""
        finally:
            listening.terminate()


@pytest.mark.parametrize("way", [[], [PROXY]], ids=["directly", "through the server"])
def test_a_port_without_a_listener_costs_one_connection(osb, sandbox, way):
    with forwarding(osb, sandbox, 9999, *way) as process:
        port = begin(process)
        for _ in range(2):
            with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
                assert connection.recv(1) == b""
            assert b"9999" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
