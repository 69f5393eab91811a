"""[egress.upstream_proxy]: connections of sandboxes with a policy leave through the operator's proxy, or not at all."""

import contextlib
import socket
import threading

import pytest
from policy_backend import make_policy_daemon
from server_process import Server
from test_clients import ALLOWED, OTHER, POLICY, reaches

AUTHORIZATION = "Basic dXNlcjpuZXZlci1pbi1sb2dz"


class Proxy:
    """Leads each CONNECT to its host, by the addresses that the test knows, and keeps the heads of the requests."""

    def __init__(self, addresses):
        self.addresses, self.heads, self.away = addresses, [], False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=[self.listener.accept()[0]], daemon=True).start()

    def _serve(self, client):
        with client, contextlib.suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                head += client.recv(4096)
            self.heads.append(head.decode())
            host, port = head.split()[1].decode().split(":")
            if self.away:
                client.sendall(b"HTTP/1.1 503 Away\r\n\r\n")
                return
            with socket.create_connection((self.addresses[host], int(port)), 30) as server:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                back = threading.Thread(target=self._copy, args=[server, client])
                back.start()
                self._copy(client, server)
                back.join()

    @staticmethod
    def _copy(source, to):
        with contextlib.suppress(OSError):
            while piece := source.recv(65536):
                to.sendall(piece)
            to.shutdown(socket.SHUT_WR)

    def close(self):
        self.listener.close()


@pytest.fixture(scope="module")
def proxied(server):
    """(server, proxy), beside the internet of the suite's server."""
    proxy = Proxy({ALLOWED: "93.184.216.34", OTHER: "93.184.216.35"})
    daemon, settings = make_policy_daemon(number=1, egress={"upstream_proxy": f"http://127.0.0.1:{proxy.port}",
                                                             "upstream_proxy_authorization": AUTHORIZATION})
    running = Server(daemon, settings=settings)
    yield running, proxy
    running.remove_all()
    running.close()
    daemon.close()
    proxy.close()


def create(server):
    return server.create(image={"uri": "host"}, networkPolicy=POLICY, credentialProxy={"enabled": True})["id"]


def test_a_policy_without_interception_is_refused(proxied):
    server, _ = proxied
    refused = server.post_sandbox(networkPolicy=POLICY)
    assert refused.status_code == 400 and refused.json()["code"] == "SANDBOX::INVALID_PARAMETER"
    assert "credentialProxy" in refused.json()["message"] and "proxy" in refused.json()["message"]
    server.delete(server.create(image={"uri": "host"})["id"])  # without a policy nothing is enforced


def test_connections_go_through_the_proxy_by_name_and_denied_ones_do_not_get_there(proxied):
    server, proxy = proxied
    id = create(server)
    proxy.heads.clear()
    assert reaches(server, id, ALLOWED)
    assert proxy.heads == [f"CONNECT {ALLOWED}:80 HTTP/1.1\r\nHost: {ALLOWED}:80\r\nProxy-Authorization: {AUTHORIZATION}\r\n\r\n"]
    assert not reaches(server, id, OTHER)
    assert len(proxy.heads) == 1
    for log in (server.log(), server.daemon.log()):
        assert AUTHORIZATION not in log
    server.delete(id)


def test_nothing_passes_by_a_proxy_that_is_away(proxied):
    server, proxy = proxied
    id = create(server)
    proxy.away = True
    try:
        assert not reaches(server, id, ALLOWED)
    finally:
        proxy.away = False
    assert reaches(server, id, ALLOWED)
    server.delete(id)
