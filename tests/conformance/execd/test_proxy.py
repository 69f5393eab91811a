"""/proxy/{port}/...: HTTP, streams and WebSockets to what listens in the sandbox, and the daemon's own port."""

import http.server
import json
import socket
import threading

import httpx
import pytest
import websockets.exceptions
import websockets.sync.client
import websockets.sync.server


class Echo(http.server.BaseHTTPRequestHandler):
    """Tells what it was asked; /stream sends a line and the next one when the test says so."""

    protocol_version = "HTTP/1.1"
    go_on = threading.Event()

    def answer(self):
        length = int(self.headers.get("Content-Length", 0))
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(length)
        if self.path == "/stream":
            return self.stream()
        told = json.dumps({
            "method": self.command, "path": self.path, "headers": [[k.lower(), v] for k, v in self.headers.items()],
            "body": body.decode(), "peer": self.client_address[1]}).encode()
        self.send_response(201)
        self.send_header("Content-Length", str(len(told)))
        self.send_header("X-Twice", "a")
        self.send_header("X-Twice", "b")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(told)

    def stream(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"b\r\ndata: one\n\n\r\n")
        self.go_on.wait(30)
        self.wfile.write(b"b\r\ndata: two\n\n\r\n0\r\n\r\n")

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = answer

    def log_message(self, *args):
        pass


class Server6(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6


def listening(server):
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


@pytest.fixture
def echo():
    Echo.go_on.clear()
    server = listening(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo))
    yield server.server_address[1]
    Echo.go_on.set()
    server.shutdown()
    server.server_close()


def headers_of(told):
    out = {}
    for name, value in told["headers"]:
        out.setdefault(name, []).append(value)
    return out


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_any_method_with_path_query_and_body_goes_through(execd, echo, method):
    answer = execd.client.request(method, f"/proxy/{echo}/a/b%20c?x=1&y=%2F", content=b"payload")
    assert answer.status_code == 201
    told = answer.json()
    assert (told["method"], told["path"], told["body"]) == (method, "/a/b%20c?x=1&y=%2F", "payload")
    assert answer.headers.get_list("x-twice") == ["a", "b"]


def test_head_has_the_length_and_no_body(execd, echo):
    answer = execd.client.head(f"/proxy/{echo}/x")
    assert answer.status_code == 201 and answer.content == b"" and int(answer.headers["content-length"]) > 0


def test_chunked_uploads_go_through(execd, echo):
    answer = execd.client.post(f"/proxy/{echo}/x", content=iter([b"one ", b"two"]))
    assert answer.json()["body"] == "one two"


@pytest.mark.parametrize("path", ["", "/"])
def test_the_root_of_a_port(execd, echo, path):
    assert execd.client.get(f"/proxy/{echo}{path}").json()["path"] == "/"
    assert execd.client.get(f"/proxy/{echo}{path}?q=1").json()["path"] == "/?q=1"


def test_headers_of_the_contract(execd, echo):
    told = execd.client.get(f"/proxy/{echo}/", headers={
        "Host": "my.app:80", "X-Forwarded-Host": "evil", "X-Custom": "kept", "X-EXECD-ACCESS-TOKEN": "not for the port"}).json()
    headers = headers_of(told)
    assert headers["host"] == ["my.app:80"]
    assert headers["x-custom"] == ["kept"] and "x-execd-access-token" not in headers
    assert headers["x-forwarded-for"] == ["127.0.0.1"] and headers["x-forwarded-proto"] == ["http"]
    assert "x-forwarded-host" not in headers


@pytest.mark.parametrize("given,want", [({"X-Forwarded-For": "10.0.0.1, 10.0.0.2"}, "10.0.0.1"),
                                        ({"X-Real-IP": "10.0.0.3"}, "10.0.0.3")])
def test_the_first_address_is_passed_on(execd, echo, given, want):
    told = execd.client.get(f"/proxy/{echo}/", headers={**given, "X-Forwarded-Proto": "https"}).json()
    assert headers_of(told)["x-forwarded-for"] == [want]
    assert headers_of(told)["x-forwarded-proto"] == ["http"]


def test_connections_to_the_port_are_kept(execd, echo):
    peers = {execd.client.get(f"/proxy/{echo}/").json()["peer"] for _ in range(10)}
    assert len(peers) < 10


def test_a_stream_is_passed_on_as_it_comes(execd, echo):
    with execd.client.stream("GET", f"/proxy/{echo}/stream") as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        pieces = answer.iter_raw()
        assert next(pieces) == b"data: one\n\n"  # the second is not sent before we have this one
        Echo.go_on.set()
        assert b"".join(pieces) == b"data: two\n\n"


def test_a_port_without_a_listener_is_502(execd):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        answer = execd.client.get(f"/proxy/{unused.getsockname()[1]}/x")
    assert answer.status_code == 502
    assert "Bad Gateway" in answer.json()["message"] and answer.json()["code"]


def test_a_server_that_hangs_up_is_502(execd):
    with socket.socket() as rude:
        rude.bind(("127.0.0.1", 0))
        rude.listen()

        def hang_up():
            connection, _ = rude.accept()
            connection.recv(10)
            connection.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        assert execd.client.post(f"/proxy/{rude.getsockname()[1]}/x", content=b"x").status_code == 502
        thread.join()


@pytest.mark.parametrize("headers", [{}, {"Connection": "Upgrade", "Upgrade": "x"}], ids=["plain", "upgrade"])
def test_a_101_in_the_middle_of_an_upload_is_502(execd, headers):
    with socket.socket() as rude:
        rude.bind(("127.0.0.1", 0))
        rude.listen()
        answered = threading.Event()
        ended = threading.Event()

        def switch():
            connection, _ = rude.accept()
            with connection:
                while b"first" not in connection.recv(65536):
                    pass
                connection.sendall(b"HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nrest")
                answered.set()
                try:
                    while connection.recv(65536):
                        pass
                except ConnectionResetError:
                    pass
                ended.set()

        def body():
            yield b"first"
            answered.wait(30)
            # execd has seen the 101 once it has hung up; only then there is more of the body to pass on.
            ended.wait(30)
            yield b"x" * 100_000

        thread = threading.Thread(target=switch)
        thread.start()
        answer = execd.client.post(f"/proxy/{rude.getsockname()[1]}/x", content=body(), headers=headers)
        assert answer.status_code == 502
        assert ended.wait(30)
        thread.join()
    assert execd.client.get("/ping").status_code == 200


def test_a_502_of_the_server_itself_is_passed_on(execd):
    class Failing(Echo):
        def do_GET(self):
            self.send_response(502)
            self.send_header("Content-Length", "4")
            self.end_headers()
            self.wfile.write(b"mine")

    server = listening(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Failing))
    answer = execd.client.get(f"/proxy/{server.server_address[1]}/")
    server.shutdown()
    server.server_close()
    assert (answer.status_code, answer.content) == (502, b"mine")


@pytest.mark.parametrize("port", ["", "/", "x", "0", "65536", "-1", "80x", "+80"])
def test_an_invalid_port_is_400(execd, port):
    answer = execd.client.get(f"/proxy/{port}/x" if port not in ("", "/") else f"/proxy{port}")
    assert answer.status_code == 400
    assert answer.json()["code"] and answer.json()["message"]


def test_paths_that_only_begin_like_it_are_not_proxied(execd):
    assert execd.client.get("/proxyx/80/").status_code == 404


def test_a_server_on_ipv6_only_is_reached(execd):
    server = listening(Server6(("::1", 0), Echo))
    answer = execd.client.get(f"/proxy/{server.server_address[1]}/six")
    server.shutdown()
    server.server_close()
    assert answer.json()["path"] == "/six"


# Our own port


@pytest.mark.parametrize("times", [1, 2, 5])
def test_the_own_port_is_served_directly(execd, times):
    prefix = f"/proxy/{execd.port}" * times
    answer = execd.client.get(prefix + "/ping", headers={"X-Request-ID": "r"})
    assert answer.status_code == 200 and answer.headers["content-length"] == "0"
    assert answer.headers["x-request-id"] == "r"
    assert execd.client.get(prefix + "/nowhere").json()["code"] == execd.client.get("/nowhere").json()["code"]
    assert execd.client.put(prefix + "/ping").status_code == 405


def test_the_well_known_port_means_us_too(execd):
    assert execd.client.get("/proxy/44772/ping").status_code == 200


def test_own_port_keeps_query_and_body(execd):
    path = execd.tmp / "x"
    path.write_text("content")
    prefix = f"/proxy/{execd.port}"
    assert execd.client.get(f"{prefix}/files/download", params={"path": str(path)}).text == "content"
    stream = execd.client.post(f"{prefix}/command", json={"command": "echo hi"}).text
    assert '"hi"' in stream and "execution_complete" in stream


def test_another_port_behind_the_own_one(execd, echo):
    told = execd.client.get(f"/proxy/{execd.port}/proxy/{echo}/deep?x=1").json()
    assert told["path"] == "/deep?x=1"


def test_own_port_streams_without_a_second_connection(execd):
    with execd.client.stream("GET", f"/proxy/{execd.port}/metrics/watch") as stream:
        assert "cpu_count" in next(stream.iter_text())


# WebSockets


@pytest.fixture
def websocket_echo():
    def serve(connection):
        assert connection.request.headers["X-Forwarded-For"]
        for message in connection:
            if message == "bye":
                return connection.close(4002, "as you wish")
            connection.send(message)

    with websockets.sync.server.serve(serve, "127.0.0.1", 0, max_size=None) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.socket.getsockname()[1]
        server.shutdown()


def open_websocket(execd, path, **options):
    return websockets.sync.client.connect(f"ws://127.0.0.1:{execd.port}{path}", proxy=None, max_size=None, **options)


@pytest.mark.parametrize("nested", [False, True])
def test_a_websocket_goes_through(execd, websocket_echo, nested):
    prefix = f"/proxy/{execd.port}" if nested else ""
    with open_websocket(execd, f"{prefix}/proxy/{websocket_echo}/ws?x=1") as ws:
        for message in ("text", b"\x00\xff", "x" * 1_000_000, b"y" * 300_000):
            ws.send(message)
            assert ws.recv() == message
        ws.send("bye")
        with pytest.raises(websockets.exceptions.ConnectionClosed) as closed:
            ws.recv()
        assert closed.value.rcvd.code == 4002


def test_a_websocket_without_a_listener_is_502(execd):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(websockets.exceptions.InvalidStatus) as refused:
            open_websocket(execd, f"/proxy/{unused.getsockname()[1]}/ws")
    assert refused.value.response.status_code == 502


def test_the_proxy_asks_for_the_token(token_execd, echo, websocket_echo):
    assert httpx.get(f"{token_execd.url}/proxy/{echo}/", trust_env=False).status_code == 401
    told = token_execd.client.get(f"/proxy/{echo}/").json()
    assert "x-execd-access-token" not in headers_of(told)
    with pytest.raises(websockets.exceptions.InvalidStatus) as refused:
        open_websocket(token_execd, f"/proxy/{websocket_echo}/ws")
    assert refused.value.response.status_code == 401
    with open_websocket(token_execd, f"/proxy/{websocket_echo}/ws",
                        additional_headers={"X-EXECD-ACCESS-TOKEN": token_execd.token}) as ws:
        ws.send("x")
        assert ws.recv() == "x"


@pytest.mark.parametrize("times", [0, 1, 2])
def test_a_terminal_behind_the_own_port(execd, times):
    prefix = f"/proxy/{execd.port}" * times
    session = execd.client.post(prefix + "/pty", json={"command": "echo from-the-terminal"}).json()["session_id"]
    with open_websocket(execd, f"{prefix}/pty/{session}/ws") as ws:
        frames = list(ws)
    assert any(isinstance(frame, bytes) and b"from-the-terminal" in frame for frame in frames)
    assert execd.client.delete(f"{prefix}/pty/{session}").status_code == 200
