"""/sandboxes/{id}/proxy/{port}/..."""

import gzip
import http.client
import json
import os
import socket

import httpx
import pytest
import websockets.exceptions
import websockets.sync.client

ECHO = """
import gzip, http.server, json
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def answer(self):
        size = int(self.headers.get('Content-Length') or 0)
        body = json.dumps({'method': self.command, 'path': self.path, 'headers': dict(self.headers.items()),
                           'body': self.rfile.read(size).decode()}).encode()
        if self.path.endswith('?gzip'):
            body = gzip.compress(body)
        self.send_response(201)
        if self.path.endswith('?gzip'):
            self.send_header('Content-Encoding', 'gzip')
        self.send_header('Content-Length', str(len(body)))
        self.send_header('Set-Cookie', 'a=1')
        self.send_header('Set-Cookie', 'b=2')
        if 'location=' in self.path:
            self.send_header('Location', self.path.split('location=')[1])
        self.end_headers()
        self.wfile.write(body)
    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = answer
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer.request_queue_size = 128
server = http.server.ThreadingHTTPServer(('0.0.0.0', 8000), Handler)
open('/tmp/listening', 'w').close()
server.serve_forever()
"""


# Accepts on 8002. Ends the connection as the request's path says: /reset, /garbage, or a WebSocket whose side it closes
# with the bytes of the path ("none" sends no close frame).
RUDE = """
import base64, hashlib, pathlib, socket, struct
listener = socket.create_server(('0.0.0.0', 8002))
pathlib.Path('/tmp/rude').touch()
while True:
    peer, _ = listener.accept()
    request = b''
    while b'\\r\\n\\r\\n' not in request:
        piece = peer.recv(65536)
        if not piece: break
        request += piece
    if not request: continue
    path = request.split()[1].decode().split('?')[0].rsplit('/', 1)[1]
    if path == 'reset':
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
    elif path == 'garbage':
        peer.sendall(b'this is not HTTP\\r\\n\\r\\n')
    else:
        lines = request.decode().split('\\r\\n')
        fields = {name.lower(): value for name, _, value in (line.partition(': ') for line in lines[1:])}
        accept = base64.b64encode(hashlib.sha1((fields['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').encode()).digest())
        peer.sendall(b'HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n'
                     b'Sec-WebSocket-Accept: ' + accept + b'\\r\\n\\r\\n')
        hello = (fields.get('origin', '') + ' ' + path).encode()
        peer.sendall(bytes([0x81, len(hello)]) + hello)
        if path == 'big':
            data = request.split(b'\\r\\n\\r\\n', 1)[1]
            while len(data) < 14: data += peer.recv(65536)
            size = int.from_bytes(data[2:10], 'big')
            while len(data) < 14 + size: data += peer.recv(1 << 20)
            mask = data[10:14] * (size // 4)
            peer.sendall(bytes([0x82, 127]) + size.to_bytes(8, 'big'))
            peer.sendall((int.from_bytes(data[14:], 'big') ^ int.from_bytes(mask, 'big')).to_bytes(size, 'big'))
            while peer.recv(65536): pass
        elif path == 'listen':
            seen = b''
            while piece := peer.recv(65536): seen += piece
            if len(seen) >= 6:
                seen = seen[:2] + bytes(b ^ seen[2 + i % 4] for i, b in enumerate(seen[6:]))
            pathlib.Path('/tmp/heard').write_text(seen.hex())
        elif path != 'none':
            payload = bytes.fromhex(path)
            peer.sendall(bytes([0x88, len(payload)]) + payload)
            while peer.recv(65536): pass
    peer.close()
"""

# Accepts on 8001, tells when it was asked, never answers, and tells when the asker has gone.
SILENT = """
import pathlib, socket
listener = socket.create_server(('0.0.0.0', 8001))
pathlib.Path('/tmp/silent').touch()
peer, _ = listener.accept()
peer.recv(65536)
pathlib.Path('/tmp/asked').touch()
while peer.recv(65536): pass
pathlib.Path('/tmp/left').touch()
"""


# Listens on 8003 and accepts nothing: its queue is full, so that the kernel drops what else comes.
FULL = """
import pathlib, socket, time
listener = socket.socket()
listener.bind(('0.0.0.0', 8003))
listener.listen(0)
queued = []
while True:
    queued.append(socket.socket())
    queued[-1].settimeout(0.5)
    try: queued[-1].connect(('127.0.0.1', 8003))
    except TimeoutError: break
pathlib.Path('/tmp/full').touch()
time.sleep(1000000)
"""


@pytest.fixture(scope="module")
def echo(server):
    id = server.create()["id"]
    server.run(id, f"cat > /root/echo.py <<'END'\n{ECHO}\nEND\nnohup python3 /root/echo.py >/tmp/log 2>&1 &")
    server.run(id, "until [ -e /tmp/listening ]; do sleep 0.05; done")
    yield id
    server.delete(id)


@pytest.fixture(scope="module")
def rude(server, echo):
    server.run(echo, f"cat > /root/rude.py <<'END'\n{RUDE}\nEND\nnohup python3 /root/rude.py >/tmp/rude.log 2>&1 &")
    until_there(server, echo, "/tmp/rude")
    return echo


@pytest.fixture(autouse=True)
def no_sandboxes_left():
    """The sandbox of this file goes with the file."""


def raw(server, method, path, **options):
    client = httpx.Client(trust_env=False, timeout=30)
    return client.send(client.build_request(method, httpx.URL(server.url).copy_with(raw_path=path.encode()), **options))


@pytest.mark.on_podman
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
def test_requests_pass_as_they_are(server, echo, method):
    response = raw(server, method, f"/sandboxes/{echo}/proxy/8000/a%2Fb/c?x=%20y&flag", content=b"hello",
                   headers={"X-Mine": "1"})
    assert response.status_code == 201
    seen = response.json()
    assert seen["method"] == method and seen["path"] == "/a%2Fb/c?x=%20y&flag"
    assert seen["headers"]["X-Mine"] == "1" and seen["body"] == "hello"
    prefix = f"/sandboxes/{echo}/proxy/8000"
    assert response.headers.get_list("set-cookie") == [f"a=1; Path={prefix}", f"b=2; Path={prefix}"]


def test_nothing_behind_the_port_is_the_root(server, echo):
    assert raw(server, "GET", f"/v1/sandboxes/{echo}/proxy/8000").json()["path"] == "/"
    assert raw(server, "GET", f"/v1/sandboxes/{echo}/proxy/8000/").json()["path"] == "/"
    assert raw(server, "GET", f"/sandboxes/{echo}/proxy/8000?q=1").json()["path"] == "/?q=1"


def test_credentials_of_the_server_stay_here(server, echo):
    secret = {"Authorization": "Bearer x", "Cookie": "c=1", "OPEN-SANDBOX-API-KEY": server.key, "X-Other": "kept"}
    seen = raw(server, "GET", f"/sandboxes/{echo}/proxy/8000/", headers=secret).json()["headers"]
    names = {name.lower() for name in seen}
    assert not names & {"authorization", "cookie", "open-sandbox-api-key"}
    assert seen["X-Other"] == "kept"
    assert seen["X-Forwarded-Proto"] == "http"
    assert seen["X-Forwarded-Host"] == f"127.0.0.1:{server.port}"
    assert seen["X-Forwarded-For"] == "127.0.0.1"


FORGED = {"Forwarded": "for=203.0.113.9", "X-Forwarded-For": "203.0.113.9", "X-Forwarded-Host": "evil.example",
          "X-Forwarded-Port": "1", "X-Forwarded-Proto": "https", "X-Real-IP": "203.0.113.9",
          "OpenSandbox-Secure-Access": "secret", "OpenSandbox-Access-Renew": "skip"}


def test_forwarding_headers_are_made_here(server, echo):
    seen = raw(server, "GET", f"/v1/sandboxes/{echo}/proxy/8000/", headers=FORGED).json()["headers"]
    names = {name.lower(): value for name, value in seen.items()}
    assert (names["x-forwarded-proto"], names["x-forwarded-host"], names["x-forwarded-for"]) == (
        "http", f"127.0.0.1:{server.port}", "127.0.0.1")
    assert not names.keys() & {"forwarded", "x-forwarded-port", "x-real-ip", "opensandbox-secure-access",
                               "opensandbox-access-renew"}
    assert not [value for value in names.values() if "203.0.113.9" in value or "evil" in value]


def test_a_location_inside_stays_inside(server, echo):
    for prefix in (f"/v1/sandboxes/{echo}/proxy/8000", f"/sandboxes/{echo}/proxy/8000"):
        def located(location):
            answer = raw(server, "GET", f"{prefix}/?location={location}")
            assert len(answer.headers.get_list("date")) == 1 and "server" not in answer.headers
            return answer.headers["location"]

        assert located("/login?next=%2Fa") == f"{prefix}/login?next=%2Fa"
        for untouched in ("//other.example/x", "https://other.example/x", "relative"):
            assert located(untouched) == untouched


def test_a_broken_handshake_is_a_400(server, echo):
    response = raw(server, "POST", f"/sandboxes/{echo}/proxy/8000/", headers={"Upgrade": "websocket"})
    assert (response.status_code, response.json()["code"]) == (400, "SANDBOX::INVALID_PARAMETER")


@pytest.mark.on_docker
def test_a_port_has_a_host_name_of_its_own(server, echo):
    def ask(host, method="GET", target="/", headers=None, body=None):
        """Not with httpx: the check against the specification goes by paths, and these are no paths of the API."""
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        connection.request(method, target, body, {"Host": host, **(headers or {})})
        answer = connection.getresponse()
        return answer, answer.read()

    host = f"{echo}-8000.localhost:{server.port}"
    answer, body = ask(host, "POST", "/v1/sandboxes?a=b", {
        "Authorization": "Bearer x", "Cookie": "c=1", "OPEN-SANDBOX-API-KEY": server.key, "X-EXECD-ACCESS-TOKEN": "a-token",
        "Origin": f"http://{host}"}, b"hello")
    seen = json.loads(body)
    assert (seen["method"], seen["path"], seen["body"]) == ("POST", "/v1/sandboxes?a=b", "hello")
    headers = {name.lower(): value for name, value in seen["headers"].items()}
    assert (headers["host"], headers["authorization"], headers["cookie"]) == (host, "Bearer x", "c=1")
    assert "open-sandbox-api-key" not in headers and "x-execd-access-token" not in headers
    assert answer.headers.get_all("Set-Cookie") == ["a=1", "b=2"]
    assert ask(f"{echo}-9.localhost")[0].status == 502
    assert ask("no-such-sandbox-80.localhost")[0].status == 404


@pytest.mark.on_podman
def test_execd_asks_for_its_token(server, echo):
    assert raw(server, "GET", f"/sandboxes/{echo}/proxy/44772/command/status/x").status_code == 401
    headers = server.token(echo)
    assert raw(server, "GET", f"/sandboxes/{echo}/proxy/44772/ping", headers=headers).status_code == 200


@pytest.mark.on_podman
def test_a_port_without_a_server_is_a_502(server, echo):
    response = raw(server, "GET", f"/sandboxes/{echo}/proxy/9/")
    assert (response.status_code, response.json()["code"]) == (502, "BACKEND_CONNECTION_FAILED")
    assert server.daemon.list()[0]["address"] not in response.text


def test_a_port_that_breaks_off_is_a_502(server, rude):
    for path in ("reset", "garbage"):
        response = raw(server, "GET", f"/sandboxes/{rude}/proxy/8002/{path}")
        assert (response.status_code, response.json()["code"]) == (502, "BACKEND_RESPONSE_FAILED"), path


def test_a_port_that_drops_connections_is_a_502_before_clients_give_up(server, echo):
    """SDKs wait 30 seconds, as `raw` does: after that nobody would read the reason."""
    server.run(echo, f"cat > /root/full.py <<'END'\n{FULL}\nEND\nnohup python3 /root/full.py >/tmp/full.log 2>&1 &")
    until_there(server, echo, "/tmp/full")
    response = raw(server, "GET", f"/sandboxes/{echo}/proxy/8003/")
    assert (response.status_code, response.json()["code"]) == (502, "BACKEND_CONNECTION_FAILED")


def until_there(server, id, path):
    server.run(id, f"until [ -e {path} ]; do sleep 0.05; done")


def ask_silent(server, id):
    """A connection with a request that will not be answered."""
    server.run(id, f"rm -f /tmp/asked /tmp/left; cat > /root/silent.py <<'END'\n{SILENT}\nEND\n"
                   "nohup python3 /root/silent.py >/tmp/log 2>&1 &")
    until_there(server, id, "/tmp/silent")
    peer = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    peer.sendall(f"GET /sandboxes/{id}/proxy/8001/ HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    until_there(server, id, "/tmp/asked")
    return peer


def test_a_client_that_leaves_before_the_answer_takes_its_request_with_it(server, echo):
    ask_silent(server, echo).close()
    until_there(server, echo, "/tmp/left")


def test_a_request_without_an_answer_does_not_keep_the_server_from_ending(make_server):
    server = make_server()
    with ask_silent(server, server.create()["id"]) as peer:
        server.stop()
        assert peer.recv(1) == b""


@pytest.mark.on_docker
@pytest.mark.parametrize("internal", [True, False], ids=["addresses", "published ports"])
def test_a_port_that_does_not_answer_in_the_operators_time_is_a_504(make_server, internal):
    server = make_server(settings={"proxy": {"answer_timeout_seconds": 1, "resolve_internal": internal}})
    with ask_silent(server, server.create()["id"]) as peer:
        answer = http.client.HTTPResponse(peer)
        answer.begin()
        assert (answer.status, json.loads(answer.read())["code"]) == (504, "BACKEND_TIMEOUT")


def test_ports_out_of_range(server, echo):
    for port in ("0", "65536", "99999999999999999999"):
        response = raw(server, "GET", f"/sandboxes/{echo}/proxy/{port}/")
        assert response.status_code == 400, port


@pytest.mark.on_podman
def test_upgrades_become_a_plain_connection(server, echo):
    """execd's terminal speaks WebSocket."""
    headers = server.token(echo)
    made = raw(server, "POST", f"/sandboxes/{echo}/proxy/44772/pty", headers=headers, json={"cwd": "/"})
    assert made.status_code in (200, 201), made.text
    session = made.json()["session_id"]
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as peer:
        lines = [f"GET /sandboxes/{echo}/proxy/44772/pty/{session}/ws HTTP/1.1", f"Host: 127.0.0.1:{server.port}",
                 "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
                 "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        peer.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        answer = peer.recv(65536)
        assert answer.startswith(b"HTTP/1.1 101"), answer
        assert b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in answer
        peer.sendall(b"\x89\x80\x00\x00\x00\x00")  # a masked ping
        while b"\x8a\x00" not in answer:
            piece = peer.recv(65536)
            assert piece, "closed without a pong"
            answer += piece


def closed_with(server, path, **options):
    with websockets.sync.client.connect(f"ws://127.0.0.1:{server.port}{path}", open_timeout=20, **options) as socket:
        with pytest.raises(websockets.exceptions.ConnectionClosed) as closed:
            socket.recv(timeout=120)
        return closed.value.rcvd.code, closed.value.rcvd.reason, socket.subprotocol


def test_websockets_that_fail_are_closed_with_a_code(server, echo):
    """A browser would not see the status of a refused handshake."""
    unknown = "6b0a2c7e-0000-4000-8000-000000000000"
    code, reason, _ = closed_with(server, f"/sandboxes/{unknown}/proxy/8000/")
    assert code == 1011 and unknown in reason
    assert closed_with(server, f"/v1/sandboxes/{echo}/proxy/9/")[0] == 1011
    assert closed_with(server, f"/sandboxes/{echo}/proxy/0/")[0] == 1011
    code, reason, protocol = closed_with(server, f"/sandboxes/{echo}/proxy/8000/", subprotocols=["one", "two"])
    assert (code, protocol) == (1008, "one") and "201" in reason
    assert closed_with(server, f"/sandboxes/{echo}/proxy/44772/pty/none/ws")[0] == 1008


@pytest.mark.parametrize("sent, received", [
    ("03e8", 1000), ("0fa0", 4000), ("", 1000), ("03ed", 1011), ("03ee", 1011), ("0001", 1011), ("none", 1011)])
def test_a_close_code_that_may_not_be_sent_is_replaced(server, rude, sent, received):
    """"none": the port ends its connection without a close frame."""
    with websockets.sync.client.connect(f"ws://127.0.0.1:{server.port}/v1/sandboxes/{rude}/proxy/8002/{sent}?a=b",
                                        open_timeout=60, origin="http://page.example") as socket:
        assert socket.recv(timeout=120) == f"http://page.example {sent}"
        with pytest.raises(websockets.exceptions.ConnectionClosed) as closed:
            socket.recv(timeout=120)
    assert closed.value.rcvd.code == received


@pytest.mark.parametrize("ending, heard", [
    (lambda socket: socket.close(), "888203e8"),  # masked, so the length has the high bit
    (lambda socket: socket.socket.close(), "888203e9"),
])
def test_the_port_hears_how_the_client_left(server, rude, ending, heard):
    server.run(rude, "rm -f /tmp/heard")
    with websockets.sync.client.connect(f"ws://127.0.0.1:{server.port}/sandboxes/{rude}/proxy/8002/listen",
                                        open_timeout=60, close_timeout=1) as socket:  # it never answers a close
        assert socket.recv(timeout=120) == " listen"
        ending(socket)
        until_there(server, rude, "/tmp/heard")
    assert server.run(rude, "cat /tmp/heard") == heard


def test_messages_have_no_limit_of_size(server, rude):
    message = os.urandom(32 << 20)
    with websockets.sync.client.connect(f"ws://127.0.0.1:{server.port}/sandboxes/{rude}/proxy/8002/big", open_timeout=60,
                                        max_size=None, compression=None) as socket:
        assert socket.recv(timeout=120) == " big"
        socket.send(message)
        assert socket.recv(timeout=300) == message


def test_bodies_are_not_decoded(server, echo):
    """A client that asks for compression gets the bytes of the port."""
    with httpx.Client(trust_env=False, timeout=60).stream(
            "GET", f"{server.url}/sandboxes/{echo}/proxy/8000/?gzip", headers={"Accept-Encoding": "gzip"}) as answer:
        assert answer.headers["content-encoding"] == "gzip"
        raw_body = b"".join(answer.iter_raw())
    assert len(raw_body) == int(answer.headers["content-length"])
    assert json.loads(gzip.decompress(raw_body))["headers"]["Accept-Encoding"] == "gzip"


def test_endpoints_keep_the_prefix_of_the_call(server, echo):
    def endpoint(prefix, **params):
        answer = server.client.get(f"{prefix}/sandboxes/{echo}/endpoints/8000", params={"use_server_proxy": "true"})
        return answer.json()["endpoint"]

    for prefix in ("/v1", ""):
        assert endpoint(prefix) == f"127.0.0.1:{server.port}{prefix}/sandboxes/{echo}/proxy/8000"
        assert httpx.get(f"http://{endpoint(prefix)}/x", trust_env=False).json()["path"] == "/x"


def test_a_public_address_has_its_own_path(make_server):
    server = make_server(settings={"server": {"eip": "https://box.example.com/base/"}})
    id = server.create()["id"]
    server.run(id, f"cat > /root/echo.py <<'END'\n{ECHO}\nEND\nnohup python3 /root/echo.py >/tmp/log 2>&1 &")
    until_there(server, id, "/tmp/listening")
    endpoint = server.client.get(f"/v1/sandboxes/{id}/endpoints/8000", params={"use_server_proxy": "true"}).json()
    assert endpoint["endpoint"] == f"box.example.com/base/sandboxes/{id}/proxy/8000"
    answer = raw(server, "GET", f"/v1/sandboxes/{id}/proxy/8000/?location=/login")
    assert answer.headers["location"] == f"/base/sandboxes/{id}/proxy/8000/login"


def deadline_of(server, id):
    return server.get(id).json()["expiresAt"]


def deadline_after_access(server, id, headers=None):
    headers = {**server.token(id), **(headers or {})}
    assert raw(server, "GET", f"/v1/sandboxes/{id}/proxy/44772/ping", headers=headers).status_code == 200
    #  The store takes changes in order, so a renewal would be done before this one.
    patched = server.client.patch(f"/v1/sandboxes/{id}/metadata", json={"touched": "x"})
    assert patched.status_code == 200, patched.text
    return deadline_of(server, id)


def renewal(policy, seconds):
    """The field of 1.2, and the extension before it."""
    if policy:
        return {"lifecycle": {"renewalPolicy": {"extendSeconds": seconds}}}
    return {"extensions": {"access.renew.extend.seconds": str(seconds)}}


@pytest.mark.on_docker
@pytest.mark.parametrize("policy", [True, False], ids=["policy", "extension"])
def test_access_renews_unless_the_request_skips_it(make_server, policy):
    server = make_server(settings={"renew_intent": {"enabled": True}})
    id = server.create(timeout=300, **renewal(policy, 86400))["id"]
    before = deadline_of(server, id)
    assert deadline_after_access(server, id, {"OpenSandbox-Access-Renew": "skip"}) == before
    assert deadline_after_access(server, id, {"OpenSandbox-Access-Renew": "Skip"}) > before, "only the exact word"
    longer = server.create(timeout=86400, **renewal(policy, 300))["id"]
    before = deadline_of(server, longer)
    assert deadline_after_access(server, longer) == before, "an access never shortens"


def test_access_renews_only_where_the_operator_lets_it(server):
    id = server.create(timeout=300, **renewal(True, 86400))["id"]
    before = deadline_of(server, id)
    assert deadline_after_access(server, id) == before
    server.delete(id)


@pytest.mark.on_podman
def test_the_proxy_works_where_addresses_of_sandboxes_cannot_be_reached(make_server):
    """On an engine the requests go through execd's published port then."""
    server = make_server(settings={"proxy": {"resolve_internal": False}})
    id = server.create()["id"]
    server.run(id, f"cat > /root/echo.py <<'END'\n{ECHO}\nEND\nnohup python3 /root/echo.py >/tmp/log 2>&1 &")
    until_there(server, id, "/tmp/listening")
    answer = raw(server, "GET", f"/v1/sandboxes/{id}/proxy/8000/a%2Fb?c&location=/d", headers=FORGED)
    assert answer.json()["path"] == "/a%2Fb?c&location=/d"
    assert answer.json()["headers"]["X-Forwarded-For"] == "127.0.0.1"
    assert answer.headers["location"] == f"/v1/sandboxes/{id}/proxy/8000/d"
    refused = raw(server, "GET", f"/v1/sandboxes/{id}/proxy/9/")
    assert (refused.status_code, refused.json()["code"]) == (502, "BACKEND_CONNECTION_FAILED")


@pytest.mark.on_docker
def test_secure_access_asks_for_the_token_of_the_endpoint(server, echo):
    id = server.create(secureAccess=True)["id"]
    try:
        endpoint = server.client.get(f"/v1/sandboxes/{id}/endpoints/44772").json()
        assert endpoint["endpoint"] == f"127.0.0.1:{server.port}/v1/sandboxes/{id}/proxy/44772", "no way around the proxy"
        token = endpoint["headers"]["OpenSandbox-Secure-Access"]
        assert server.client.get(f"/v1/sandboxes/{id}/endpoints/8000").json()["headers"] == {
            "OpenSandbox-Secure-Access": token}
        path = f"/sandboxes/{id}/proxy/44772/ping"
        assert raw(server, "GET", path, headers=endpoint["headers"]).status_code == 200
        wrong = [{}, {"OpenSandbox-Secure-Access": ""}, {"OpenSandbox-Secure-Access": token[:-1] + "x"}]
        for headers in wrong:
            response = raw(server, "GET", path, headers={**endpoint["headers"], "OpenSandbox-Secure-Access": "", **headers})
            assert (response.status_code, response.json()["code"]) == (401, "MISSING_OR_INVALID_SECURE_ACCESS")
        code, reason, _ = closed_with(server, f"/sandboxes/{id}/proxy/44772/pty/none/ws")
        assert code == 1008 and "OpenSandbox-Secure-Access" in reason
    finally:
        server.delete(id)
    assert "OpenSandbox-Secure-Access" not in server.token(echo)


@pytest.mark.on_podman
def test_direct_endpoints_reach_the_same_execd(server, echo):
    endpoint = server.client.get(f"/v1/sandboxes/{echo}/endpoints/44772").json()
    assert endpoint["endpoint"] == server.daemon.direct_endpoint(echo, 44772)
    assert httpx.get(f"http://{endpoint['endpoint']}/ping", headers=endpoint["headers"],
                     trust_env=False).status_code == 200
