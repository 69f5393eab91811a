"""Connections that hold the server's places and send no whole request, while others want to be served."""

import contextlib
import socket
import struct

import httpx
import pytest

from sandboxd_process import Sandboxd
from server_process import Server

pytestmark = pytest.mark.wall("Places of the server", second="a limit per client address, and short deadlines under pressure")

STRANGER = "a client without a key"
PLACES = 128
HALF = b"GET /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nX-Half"


@pytest.fixture(scope="module")
def small():
    """A server with few places, and with room for half-sent requests of one address, so that the places run out first."""
    daemon = Sandboxd(settings={"network": {"subnet": "10.97.0.0/16", "table": "osb_test_half", "interface_prefix": "osbh-"}})
    server = Server(daemon, settings={"server": {"limit_concurrency": PLACES, "limit_half_sent_per_address": 0}})
    yield server
    server.close()
    daemon.close()


@contextlib.contextmanager
def crowd(server, count, send, source="127.0.0.1"):
    """Holds `count` connections that have sent these bytes. A connection that the server closes stays closed."""
    held = []
    try:
        for _ in range(count):
            stream = socket.create_connection(("127.0.0.1", server.port), timeout=60, source_address=(source, 0))
            held.append(stream)
            with contextlib.suppress(OSError):
                stream.sendall(send)
        yield held
    finally:
        for stream in held:
            stream.close()


def still_served(server, friend):
    """A health check, a new client with the key, and one that has been there before: in this order, each with an answer."""
    assert httpx.get(f"{server.url}/health", trust_env=False, timeout=60).json() == {"status": "healthy"}
    assert httpx.get(f"{server.url}/health/ready", trust_env=False, timeout=60).status_code == 200
    headers = {"OPEN-SANDBOX-API-KEY": server.key}
    assert httpx.get(f"{server.url}/v1/sandboxes", headers=headers, trust_env=False, timeout=60).status_code == 200
    assert friend.get("/v1/sandboxes").status_code == 200


@pytest.fixture
def friend(small):
    with httpx.Client(base_url=small.url, headers={"OPEN-SANDBOX-API-KEY": small.key}, trust_env=False, timeout=60,
                      limits=httpx.Limits(max_connections=1)) as client:
        assert client.get("/v1/sandboxes").status_code == 200
        yield client


WAYS = {
    "half a head": HALF,
    "one byte": b"G",
    "nothing": b"",
    "a request, then nothing": b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a request and half of the next": b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n" + HALF,
    "a body that does not come": b"POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{",
    "a body that does not come to an open route": b"POST /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n",
    "a large answer that is not taken": b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 40,
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "a request that is none": b"\x00\x01\x02\r\n\r\n",
    "a wrong key": b"GET /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nOPEN-SANDBOX-API-KEY: guess\r\n\r\n",
}


@pytest.mark.attack(by=STRANGER)
@pytest.mark.parametrize("way", WAYS)
def test_connections_without_a_request_keep_nobody_out(small, friend, way):
    with crowd(small, 3 * PLACES, WAYS[way]):
        for _ in range(3):
            still_served(small, friend)
    still_served(small, friend)


@pytest.mark.attack(by=STRANGER)
def test_connections_of_many_addresses_keep_nobody_out(small, friend):
    with contextlib.ExitStack() as crowds:
        for last in range(2, 34):
            crowds.enter_context(crowd(small, 12, HALF, f"127.0.0.{last}"))
        for _ in range(3):
            still_served(small, friend)


@pytest.mark.attack(by=STRANGER)
def test_the_oldest_half_request_goes_and_the_youngest_may_finish(small):
    with crowd(small, 2 * PLACES, HALF) as held:
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := held[0].recv(65536):
                answer += piece
        assert answer.split()[1] == b"503" and b"Retry-After" in answer
        held[-1].sendall(b": x\r\nOPEN-SANDBOX-API-KEY: " + small.key.encode() + b"\r\n\r\n")
        assert held[-1].recv(65536).split()[1] == b"200"


@pytest.mark.attack(by=STRANGER)
def test_one_address_has_few_half_requests(prison):
    """With the default, 64: the 65th ends the first, however many places are free."""
    with crowd(prison.server, 70, HALF) as held:
        for stream in held[:6]:
            answer = b""
            with contextlib.suppress(ConnectionResetError):
                while piece := stream.recv(65536):
                    answer += piece
            assert answer.split()[1] == b"503"
        held[-1].sendall(b": x\r\nConnection: close\r\n\r\n")
        assert held[-1].recv(65536).split()[1] == b"401"


@pytest.mark.attack(by="a client with the key")
def test_health_is_answered_when_every_place_is_taken_by_right(small):
    request = b"GET /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nOPEN-SANDBOX-API-KEY: " + small.key.encode() + b"\r\n\r\n"
    with contextlib.ExitStack() as crowds:
        held = crowds.enter_context(crowd(small, 0, b""))
        for _ in range(PLACES):
            stream = socket.create_connection(("127.0.0.1", small.port), timeout=60)
            held.append(stream)
            stream.sendall(request)
            assert stream.recv(65536).split()[1] == b"200"
        crowds.enter_context(crowd(small, PLACES, HALF))
        for _ in range(3):
            assert httpx.get(f"{small.url}/health", trust_env=False, timeout=60).status_code == 200
        refused = httpx.get(f"{small.url}/v1/sandboxes", headers={"OPEN-SANDBOX-API-KEY": small.key}, trust_env=False, timeout=60)
        assert refused.status_code == 503 and refused.json()["code"] == "GENERAL::TOO_MANY_CONNECTIONS"
        #  None that came by right had to go.
        for stream in held[:PLACES]:
            stream.sendall(request)
            assert stream.recv(65536).split()[1] == b"200"


@pytest.mark.attack(by=STRANGER)
def test_connections_that_are_reset_leave_nothing_behind(small, friend):
    for _ in range(3):
        with crowd(small, 2 * PLACES, HALF) as held:
            for stream in held:
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    still_served(small, friend)
    with crowd(small, PLACES // 2, HALF) as held:
        held[0].sendall(b": x\r\nOPEN-SANDBOX-API-KEY: " + small.key.encode() + b"\r\n\r\n")
        assert held[0].recv(65536).split()[1] == b"200", "half of the places are free again"
