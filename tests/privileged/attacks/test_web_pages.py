"""Requests that a web page in the browser of a user can make, against a server without a key on the user's machine."""

import asyncio
import json
import socket

import httpx
import pytest
from opensandbox import Sandbox
from opensandbox.config import ConnectionConfig

from sandboxd_process import Sandboxd
from server_process import Server

pytestmark = pytest.mark.wall("Web pages and a server without a key", second="one origin per sandbox, no cookies in the API")

PAGE = "a web page"
CREATE = json.dumps({"image": {"uri": "host"}, "entrypoint": ["sleep", "1000"], "resourceLimits": {}}).encode()
EVIL = "http://evil.example.com"


@pytest.fixture(scope="module")
def open_server():
    """Without a key; it has a name for containers. The rules are the server's, so one backend stands for all."""
    daemon = Sandboxd(settings={"network": {"subnet": "10.99.0.0/16", "table": "osb_test_web", "interface_prefix": "osbw-"}})
    server = Server(daemon, settings={"server": {"allowed_hosts": ["box.example.com"]}}, key="")
    yield server
    server.remove_all()
    server.close()
    daemon.close()


def ask(server, method, target, headers=(), body=b"", host=None):
    """The status, head and body of the answer to a request that is sent as it stands."""
    lines = [f"{method} {target} HTTP/1.1", "Connection: close", *headers]
    if host is not ...:
        lines.insert(1, f"Host: {host if host is not None else f'localhost:{server.port}'}")
    if body:
        lines.append(f"Content-Length: {len(body)}")
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as stream:
        stream.sendall("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)
        answer = b""
        while piece := stream.recv(65536):
            answer += piece
    head, _, rest = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), head.decode("latin-1").lower(), rest


def sandboxes(server):
    return server.client.get("/v1/sandboxes").json()["items"]


def nothing_happened(server, status, head):
    """The page has no sandbox and its browser shows it no answer; a client that is no page gets on."""
    assert status in (400, 403, 415), head
    assert "access-control-allow-origin" not in head
    assert sandboxes(server) == []


REBOUND = ["evil.example.com", "evil.example.com:{port}", "localhost.evil.example.com", "127.0.0.1.evil.example.com", "0.0.0.0:{port}",
           "user@localhost", "localhost@evil.example.com", "localhost:{port}@evil.example.com", "localhost, evil.example.com",
           "evil.example.com#localhost", "[::ffff:8.8.8.8]", "[::1].evil.example.com", "xn--localhost-.example", "LOCALHOST.EVIL.EXAMPLE.COM",
           "notbox.example.com", "box.example.com.evil.example.com", "", " ", "169.254.169.254", "localhost%2eevil.example.com"]


@pytest.mark.attack(by=PAGE)
@pytest.mark.parametrize("host", REBOUND, ids=range(len(REBOUND)))
def test_a_name_that_resolves_to_the_server_is_no_name_of_it(open_server, host):
    """DNS rebinding: the browser takes the answers for those of the page's own origin."""
    host = host.format(port=open_server.port)
    for method, body in (("GET", b""), ("POST", CREATE)):
        status, head, _ = ask(open_server, method, "/v1/sandboxes", ["Content-Type: application/json"], body, host)
        nothing_happened(open_server, status, head)


@pytest.mark.attack(by=PAGE)
@pytest.mark.parametrize("target", ["http://evil.example.com/v1/sandboxes", "http://localhost@evil.example.com/v1/sandboxes",
                                    "http://evil.example.com:80/v1/sandboxes?x=http://localhost/"], ids=range(3))
def test_an_absolute_target_does_not_hide_the_name(open_server, target):
    status, head, _ = ask(open_server, "POST", target, ["Content-Type: application/json"], CREATE)
    nothing_happened(open_server, status, head)


@pytest.mark.attack(by=PAGE)
@pytest.mark.parametrize("headers", [["Host: localhost"], ["host: evil.example.com"], ["Host:"]], ids=range(3))
def test_a_second_host_is_refused(open_server, headers):
    status, head, _ = ask(open_server, "POST", "/v1/sandboxes", ["Content-Type: application/json", *headers], CREATE)
    nothing_happened(open_server, status, head)


@pytest.mark.attack(by=PAGE)
def test_a_request_without_host_is_refused(open_server):
    for version in ("1.1", "1.0"):
        with socket.create_connection(("127.0.0.1", open_server.port), timeout=60) as stream:
            stream.sendall(f"GET /v1/sandboxes HTTP/{version}\r\n\r\n".encode())
            assert stream.recv(65536).split()[1] in (b"400", b"403")


ORIGINS = [EVIL, "null", "https://evil.example.com", "http://localhost:3000", "http://127.0.0.1:{port}", "http://x.localhost:{port}",
           "http://localhost:{port}.evil.example.com", "http://localhost:{port}@evil.example.com", "file://", "http://localhost",
           "chrome-extension://abcdef", "http://localhost:{port} http://evil.example.com", "", "*"]


@pytest.mark.attack(by=PAGE)
@pytest.mark.parametrize("origin", ORIGINS, ids=range(len(ORIGINS)))
def test_a_page_of_another_origin_creates_and_reads_nothing(open_server, origin):
    origin = f"Origin: {origin.format(port=open_server.port)}"
    for method, body in (("GET", b""), ("POST", CREATE)):
        status, head, _ = ask(open_server, method, "/v1/sandboxes", [origin, "Content-Type: application/json"], body)
        nothing_happened(open_server, status, head)
    status, head, _ = ask(open_server, "OPTIONS", "/v1/sandboxes",
                          [origin, "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: content-type",
                           "Access-Control-Request-Private-Network: true"])
    nothing_happened(open_server, status, head)


FORMS = ["text/plain", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", None, "",
         "text/plain; application/json"]
TYPES = FORMS + ["text/json", "application/jsonp", "json"]


@pytest.mark.attack(by=PAGE)
@pytest.mark.parametrize("type", TYPES, ids=range(len(TYPES)))
def test_a_form_of_an_old_browser_that_sends_no_origin_creates_nothing(open_server, type):
    headers = [] if type is None else [f"Content-Type: {type}"]
    #  An archive has another type than JSON, and none that a form has.
    for path in ["/v1/sandboxes", "/sandboxes", "/sandboxes/", "/v1/images/pull"] + ["/v1/images/load"] * (type in FORMS):
        status, head, _ = ask(open_server, "POST", path, headers, CREATE)
        assert status == 415, head
    nothing_happened(open_server, status, head)


@pytest.mark.attack(by=PAGE)
@pytest.mark.parametrize("method, mode, dest", [("GET", "no-cors", "image"), ("GET", "no-cors", "script"), ("GET", "cors", "empty"),
                                                ("GET", "navigate", "iframe"), ("POST", "navigate", "document")])
def test_an_image_frame_or_form_of_a_page_reaches_no_route(open_server, method, mode, dest):
    """These come without Origin; browsers say what they are."""
    for site in ("cross-site", "same-site"):
        for path in ("/v1/sandboxes", "/sandboxes/x/proxy/80/", "/metrics"):
            status, head, _ = ask(open_server, method, path, [f"Sec-Fetch-Site: {site}", f"Sec-Fetch-Mode: {mode}",
                                                              f"Sec-Fetch-Dest: {dest}"])
            nothing_happened(open_server, status, head)


@pytest.mark.attack(by=PAGE)
@pytest.mark.parametrize("origin", [EVIL, "null", "http://localhost:1"], ids=range(3))
def test_a_page_opens_no_websocket(open_server, origin):
    made = open_server.create()
    try:
        for path in (f"/sandboxes/{made['id']}/proxy/44772/pty/x/ws", f"/v1/sandboxes/{made['id']}/proxy/8000/", "/v1/sandboxes"):
            status, _, _ = ask(open_server, "GET", path, ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13",
                                                          "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", f"Origin: {origin}"])
            assert status == 403
    finally:
        open_server.remove_all()


@pytest.mark.attack(by=PAGE, on="native")
def test_a_server_with_a_key_shows_a_page_no_answer(prison):
    """Also to a page that has the key from elsewhere, unless the operator listed its origin."""
    headers = [f"OPEN-SANDBOX-API-KEY: {prison.server.key}", f"Origin: {EVIL}"]
    for extra in ([], ["Cookie: a=b"]):
        status, head, _ = ask(prison.server, "GET", "/v1/sandboxes", headers + extra)
        assert status == 200 and "access-control-" not in head
    status, head, _ = ask(prison.server, "OPTIONS", "/v1/sandboxes", [*headers, "Access-Control-Request-Method: POST"])
    assert status == 403 and "access-control-" not in head


@pytest.mark.attack(by="nobody: clients that must get on")
@pytest.mark.parametrize("host", ["localhost:{port}", "LOCALHOST", "localhost.:{port}", "127.0.0.1:{port}", "[::1]:{port}", "127.9.9.9",
                                  "box.example.com", "box.example.com:9000", "any.localhost:9000"])
def test_a_name_of_the_server_goes_on_working(open_server, host):
    """Port-forwards have other ports, containers call it by the name of [server] allowed_hosts."""
    host = host.format(port=open_server.port)
    assert ask(open_server, "GET", "/v1/sandboxes", host=host)[0] == 200
    status, _, body = ask(open_server, "POST", "/v1/sandboxes?wait=60", ["Content-Type: application/json"], CREATE, host)
    assert status == 202, body
    open_server.remove_all()


@pytest.mark.attack(by="nobody: clients that must get on")
def test_an_official_sdk_goes_on_working(open_server):
    async def life():
        config = ConnectionConfig(domain=f"localhost:{open_server.port}", api_key="none")
        sandbox = await Sandbox.create("host", entrypoint=["sleep", "1000"], connection_config=config)
        try:
            done = await sandbox.commands.run("echo it works")
            return done.logs.stdout[0].text
        finally:
            await sandbox.kill()
            await sandbox.close()
    assert asyncio.run(life()) == "it works"
