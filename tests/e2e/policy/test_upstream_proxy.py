"""[egress] upstream_proxy of sandboxd, [egress.upstream_proxy] of a server on containers: connections of sandboxes with a
policy leave through the operator's proxy, or not at all."""

import contextlib
import json
import socket
import threading

import pytest
from backend import backend
from fake_internet import GATEWAY
from policy_backend import make_policy_daemon, sidecar_settings
from server_process import Server
from test_clients import ALLOWED, OTHER, POLICY, reaches
from tls_sites import Authority

AUTHORIZATION = "Basic dXNlcjpuZXZlci1pbi1sb2dz"
SECRET = "sk-never-seen-inside"


class Proxy:
    """Leads each CONNECT to its host, by the addresses that the test knows, and keeps the heads of the requests. It opens TLS
    itself, with the certificate of `opens`, and keeps the heads that were inside."""

    def __init__(self, host, addresses):
        self.addresses, self.heads, self.away = addresses, [], False
        self.opens, self.opened = None, []
        self.listener = socket.create_server((host, 0))
        self.url = "http://{}:{}".format(*self.listener.getsockname())
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
                if port == "443":
                    self._open(client, server)
                    return
                back = threading.Thread(target=self._copy, args=[server, client])
                back.start()
                self._copy(client, server)
                back.join()

    def _open(self, client, server):
        """One request. The server behind it speaks plain HTTP."""
        with self.opens.wrap_socket(client, server_side=True) as opened:
            head = b""
            while b"\r\n\r\n" not in head:
                piece = opened.recv(4096)
                if not piece:
                    return
                head += piece
            self.opened.append(head.decode())
            server.sendall(head.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
            while piece := server.recv(65536):
                opened.sendall(piece)

    @staticmethod
    def _copy(source, to):
        with contextlib.suppress(OSError):
            while piece := source.recv(65536):
                to.sendall(piece)
            to.shutdown(socket.SHUT_WR)

    def close(self):
        self.listener.close()


@contextlib.contextmanager
def other_backend(server, url, authority):
    """(daemon, settings of a server on it): beside the suite's on native, its own engine without its server elsewhere."""
    if backend() == "native":
        daemon, settings = make_policy_daemon(number=1, egress={
            "upstream_proxy": url, "upstream_proxy_authorization": AUTHORIZATION, "upstream_ca": str(authority.file)})
        yield daemon, settings
        daemon.close()
        return
    server.stop()
    yield server.daemon, {**sidecar_settings(), "docker": {"allowed_networks": [f"{GATEWAY}/32"]}, "egress.upstream_proxy": {
        "url": url, "authorization": AUTHORIZATION, "ca_cert_path": str(authority.file)}}
    server.start()


@pytest.fixture(scope="module")
def proxied(server, tmp_path_factory):
    """(server, proxy), in the internet of the suite's server."""
    authority = Authority(tmp_path_factory.mktemp("authority"))
    # Sidecars have a loopback interface of their own.
    proxy = Proxy("127.0.0.1" if backend() == "native" else GATEWAY, {ALLOWED: "93.184.216.34", OTHER: "93.184.216.35"})
    proxy.opens = authority.context(ALLOWED)
    with other_backend(server, proxy.url, authority) as (daemon, settings):
        running = Server(daemon, settings=settings)
        yield running, proxy
        running.remove_all()
        running.close()
    proxy.close()


@pytest.fixture(autouse=True)
def nothing_left(proxied):
    """Instead of the one that asks the suite's server, which does not run now."""
    yield
    server, _ = proxied
    left = server.daemon.list()
    server.remove_all()
    assert left == [], server.log()[-3000:]


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


@pytest.mark.skipif(backend() == "native", reason="there is no sidecar")
def test_the_engine_does_not_show_the_authorization(proxied):
    server, _ = proxied
    id = create(server)
    sidecar = f"/containers/sandbox-egress-{id}"
    shown = json.dumps([server.daemon.ask("GET", f"{each}/json") for each in (sidecar, f"/containers/sandbox-{id}")])
    assert "OPENSANDBOX_EGRESS_UPSTREAM_PROXY=" in shown and AUTHORIZATION not in shown
    log = server.daemon.ask("GET", f"{sidecar}/logs", params={"stdout": "1", "stderr": "1"}).text
    assert "egress" in log and AUTHORIZATION not in log
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


@pytest.fixture
def vaulted(proxied):
    """A sandbox whose vault has a key for the allowed host."""
    server, _ = proxied
    id = create(server)
    filled = server.client.post(f"/v1/sandboxes/{id}/credential-vault", json={
        "credentials": [{"name": "key", "source": {"value": SECRET}}],
        "bindings": [{"name": "api", "match": {"hosts": [ALLOWED]}, "auth": {"type": "bearer", "credential": "key"}}]})
    assert filled.status_code == 201, filled.text
    yield id
    server.delete(id)


def read_by_tls(server, id):
    return server.run(id, """python3 -c 'import sys, urllib.error, urllib.request
try: print(urllib.request.urlopen(sys.argv[1], timeout=60).read().decode())
except urllib.error.HTTPError as error: print(error.status)' """ + f"https://{ALLOWED}/authorization")


def test_a_request_passes_through_a_proxy_that_opens_tls_itself(proxied, vaulted):
    server, proxy = proxied
    proxy.heads.clear()
    assert read_by_tls(server, vaulted) == f"Bearer {SECRET}"
    assert [head.split("\r\n")[0] for head in proxy.heads] == [f"CONNECT {ALLOWED}:443 HTTP/1.1"]
    assert f"Bearer {SECRET}" in proxy.opened[-1]


def test_a_proxy_with_a_certificate_of_a_stranger_gets_no_request(proxied, vaulted, tmp_path):
    server, proxy = proxied
    known, seen = proxy.opens, len(proxy.opened)
    proxy.opens = Authority(tmp_path).context(ALLOWED)
    try:
        assert read_by_tls(server, vaulted) == "502"
    finally:
        proxy.opens = known
    assert len(proxy.opened) == seen
    assert read_by_tls(server, vaulted) == f"Bearer {SECRET}"
