"""Pulls are requests of a root daemon. A client of the server names the registry; the registry names token servers and
redirects. None of them may lead sandboxd to services of its own machine or network."""

import contextlib
import ctypes
import json
import socket
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from registry import MANIFEST, digest_of, image_config, tar
from sandboxd_process import Sandboxd

pytestmark = pytest.mark.wall("Registries", second="the pull sends GET only, without credentials of the host")

BY = "a client of the server"


class Victim:
    """A service of the host that counts its connections and answers as a registry would, to be worth an attack."""

    def __init__(self, host="127.0.0.1", family=socket.AF_INET):
        self.listener = socket.create_server((host, 0), family=family)
        self.port = self.listener.getsockname()[1]
        self.connections = 0
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                self.connections += 1
                with connection:
                    connection.settimeout(5)
                    with contextlib.suppress(OSError):
                        connection.recv(65536)
                        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret")

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self._thread.join()


class Lure:
    """A registry that the operator lists; `answer(path)` gives (status, headers, body)."""

    def __init__(self, answer):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                status, headers, body = answer(self.path)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@contextlib.contextmanager
def own_mounts():
    """Programs that are started meanwhile see mounts that the machine does not."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/thread-self/ns/mnt") as before:
        assert libc.unshare(0x20000) == 0, ctypes.get_errno()
        try:
            subprocess.run(["mount", "--make-rprivate", "/"], check=True)
            yield
        finally:
            assert libc.setns(before.fileno(), 0x20000) == 0, ctypes.get_errno()


def pull(daemon, name, seconds=120):
    """The last line of a pull, or the refusal of a name that is none."""
    with daemon.client.stream("POST", "/v1/images/pull", json={"name": name}, timeout=seconds) as stream:
        lines = [line for line in stream.iter_lines() if line]
    return {"type": "error" if stream.status_code >= 400 else "", **json.loads(lines[-1])}


@pytest.fixture
def victim():
    made = Victim()
    yield made
    made.close()


@pytest.fixture(scope="module")
def daemon():
    """For all attacks that need no settings: none of them leaves anything behind."""
    made = Sandboxd(settings={"network": {"subnet": "10.88.0.0/16", "table": "osb_registries", "interface_prefix": "osbg-"}})
    yield made
    made.close()


SPELLINGS = ("127.0.0.1", "localhost", "127.1", "127.0.1", "0.0.0.0", "0", "2130706433", "0x7f000001", "0177.0.0.1",
             "127.255.255.254", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "LocalHost", "localhost.")


@pytest.mark.attack(by=BY)
@pytest.mark.parametrize("host", SPELLINGS)
def test_a_service_on_loopback_is_not_asked(daemon, victim, host):
    said = pull(daemon, f"{host}:{victim.port}/a/b:1")
    assert said["type"] == "error" and "secret" not in json.dumps(said), said
    assert victim.connections == 0


@pytest.mark.attack(by=BY)
def test_a_service_on_loopback_over_ip_version_6_is_not_asked(daemon):
    victim = Victim("::1", socket.AF_INET6)
    try:
        assert pull(daemon, f"[::1]:{victim.port}/a/b:1")["type"] == "error"
        assert victim.connections == 0
    finally:
        victim.close()


@pytest.mark.attack(by=BY)
@pytest.mark.parametrize("address", ("10.200.0.1", "172.31.0.1", "192.168.77.1", "100.64.0.9", "169.254.169.254", "198.18.0.9",
                                     "8.8.4.4"))
def test_an_address_of_this_machine_or_of_a_private_network_is_not_asked(daemon, address):
    """The last one is public; here it belongs to this machine, whose firewall trusts itself."""
    subprocess.run(["ip", "address", "add", f"{address}/32", "dev", "lo"], check=True)
    victim = Victim(address)
    try:
        with socket.create_connection((address, victim.port), 60) as connection:  # reachable it is, and counted
            connection.sendall(b"x")
            assert connection.recv(100)
        said = pull(daemon, f"{address}:{victim.port}/a/b:1")
        assert "private network" in said["message"], said
        assert victim.connections == 1
    finally:
        victim.close()
        subprocess.run(["ip", "address", "del", f"{address}/32", "dev", "lo"], check=True)


@pytest.mark.attack(by=BY)
def test_the_answer_does_not_tell_an_open_port_from_a_closed_one(daemon, victim):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    answers = {json.dumps(pull(daemon, f"127.0.0.1:{each}/a/b:1")).replace(str(each), "PORT") for each in (victim.port, port)}
    assert len(answers) == 1, answers
    assert victim.connections == 0


@pytest.mark.attack(by="a registry that was trusted")
@pytest.mark.parametrize("status", (301, 302, 303, 307, 308))
def test_a_redirect_to_an_inner_service_is_not_followed(make_daemon, victim, status):
    lure = Lure(lambda path: (status, {"Location": f"http://127.0.0.1:{victim.port}/x"}, b""))
    try:
        # The ping that finds out about TLS is answered like all the rest, so the registry is listed as one without.
        daemon = make_daemon({"images": {"insecure_registries": [lure.host]}})
        said = pull(daemon, f"{lure.host}/a/b:1")
        assert "private network" in said["message"], said
        assert victim.connections == 0
    finally:
        lure.close()


@pytest.mark.attack(by="a registry that was trusted")
def test_a_redirect_of_a_layer_to_an_inner_service_is_not_followed(make_daemon, victim):
    layer = tar({"file": "content"})
    config = image_config([layer])
    manifest = json.dumps({
        "schemaVersion": 2, "mediaType": MANIFEST,
        "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": digest_of(config), "size": len(config)},
        "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": digest_of(layer), "size": len(layer)}]}).encode()

    def answer(path):
        if "/manifests/" in path:
            return 200, {"Content-Type": MANIFEST}, manifest
        if path.endswith(digest_of(config)):
            return 200, {}, config
        if path.endswith(digest_of(layer)):
            return 307, {"Location": f"https://localhost:{victim.port}/latest/meta-data"}, b""
        return 200, {}, b""

    lure = Lure(answer)
    try:
        daemon = make_daemon({"images": {"private_registries": [lure.host]}})
        said = pull(daemon, f"{lure.host}/a/b:1")
        assert "private network" in said["message"], said
        assert victim.connections == 0
    finally:
        lure.close()


@pytest.mark.attack(by="a registry that was trusted")
@pytest.mark.parametrize("scheme", ("http", "https"))
def test_a_token_server_inside_is_not_asked(make_daemon, victim, scheme):
    realm = f'Bearer realm="{scheme}://127.0.0.1:{victim.port}/token",service="x"'
    lure = Lure(lambda path: (401, {"WWW-Authenticate": realm}, b""))
    try:
        daemon = make_daemon({"images": {"private_registries": [lure.host]}})
        said = pull(daemon, f"{lure.host}/a/b:1")
        assert said["type"] == "error", said
        assert victim.connections == 0
    finally:
        lure.close()


@pytest.mark.attack(by=BY)
def test_a_name_that_points_inward_is_not_followed(make_daemon, victim, tmp_path):
    """A public name with a private address, as a rebinding name server gives it. The hosts file plays the name server."""
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost\n127.0.0.1 registry.attacker.example\n8.8.4.4 mixed.attacker.example\n"
                     "127.0.0.1 mixed.attacker.example\n")
    with own_mounts():
        subprocess.run(["mount", "--bind", hosts, "/etc/hosts"], check=True)
        daemon = make_daemon()
        for name in ("registry.attacker.example", "mixed.attacker.example"):
            said = pull(daemon, f"{name}:{victim.port}/a/b:1")
            assert "private network" in said["message"], said
            assert "127.0.0.1" not in said["message"], said
        assert victim.connections == 0


@pytest.mark.attack(by=BY)
def test_a_create_is_no_way_around(daemon, victim):
    status, problem = daemon.refused(id="x", image=f"127.0.0.1:{victim.port}/a/b:1")
    assert "private network" in problem["message"], problem
    assert status == 403 and victim.connections == 0
