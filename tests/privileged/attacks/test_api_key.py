"""The lifecycle API and the sandboxes behind it, asked without the key or with the key of less."""

import json
import socket

import httpx
import pytest

pytestmark = pytest.mark.wall("Key of the API", second="a token for each sandbox")

NO_KEY = "a client without a key"
ROUTES = [("GET", "/v1/sandboxes"), ("POST", "/v1/sandboxes"), ("GET", "/v1/sandboxes/{id}"), ("DELETE", "/v1/sandboxes/{id}"),
          ("POST", "/v1/sandboxes/{id}/pause"), ("POST", "/v1/sandboxes/{id}/resume"),
          ("POST", "/v1/sandboxes/{id}/renew-expiration"), ("GET", "/v1/sandboxes/{id}/endpoints/44772"),
          ("PATCH", "/v1/sandboxes/{id}/metadata"), ("POST", "/v1/sandboxes/{id}/snapshots"), ("GET", "/v1/snapshots"),
          ("GET", "/v1/sandboxes/{id}/diagnostics/logs"), ("GET", "/v1/sandboxes?watch=true"), ("GET", "/v1/pools"),
          ("GET", "/metrics")]


def ask(prison, method, target, headers=(), body=b""):
    """The status and body of the answer to a request that is sent as it stands, or None if the server hangs up."""
    lines = [f"{method} {target} HTTP/1.1", f"Host: 127.0.0.1:{prison.server.port}", "Connection: close",
             f"Content-Length: {len(body)}", *headers]
    with socket.create_connection(("127.0.0.1", prison.server.port), timeout=60) as stream:
        stream.sendall("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)
        answer = b""
        while piece := stream.recv(65536):
            answer += piece
    if not answer:
        return None, b""
    head, _, rest = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), rest


@pytest.mark.attack(by=NO_KEY, on="native")
@pytest.mark.parametrize("method, path", ROUTES, ids=lambda value: value.replace("/", "_"))
def test_a_route_tells_and_does_nothing(prison, prisoner, method, path):
    status, body = ask(prison, method, path.format(id=prisoner.id), ["Content-Type: application/json"], b"")
    assert status in (401, 404), body
    assert prisoner.id.encode() not in body
    assert prison.server.state(prisoner.id) == "Running"


@pytest.mark.attack(by=NO_KEY, on="native")
@pytest.mark.parametrize("headers", [
    ["OPEN-SANDBOX-API-KEY:"], ["OPEN-SANDBOX-API-KEY: "], ["OPEN-SANDBOX-API-KEY: {short}"], ["OPEN-SANDBOX-API-KEY: {key}x"],
    ["OPEN-SANDBOX-API-KEY: {upper}"], ["OPEN-SANDBOX-API-KEY: null"], ["OPEN-SANDBOX-API-KEY: {key}\0"],
    ["OPEN-SANDBOX-API-KEY: x", "OPEN-SANDBOX-API-KEY: {key}"], ["OPEN-SANDBOX-API-KEY: {key}, x"], ["Authorization: Bearer x"],
    ["X-Forwarded-For: 127.0.0.1"], ["X-Original-URL: /health"], ["X-HTTP-Method-Override: OPTIONS"], ["Cookie: key={key}"]],
    ids=range(14))
def test_a_key_that_is_nearly_right_opens_nothing(prison, headers):
    key = prison.server.key
    values = {"key": key, "short": key[:-1], "upper": key.upper()}
    status, _ = ask(prison, "GET", "/v1/sandboxes", [line.format(**values) for line in headers])
    assert status in (400, 401)
    assert ask(prison, "GET", "/v1/sandboxes", [f"OPEN-SANDBOX-API-KEY: {key}"])[0] == 200


@pytest.mark.attack(by=NO_KEY, on="native")
@pytest.mark.parametrize("target", [
    "//v1/sandboxes", "/health/../v1/sandboxes", "/health/..%2fv1/sandboxes", "/v1/./sandboxes", "/%761/sandboxes",
    "/v1/sandboxes;x=/health", "/v1/sandboxes%00/health", "/v1/sandboxes?/health", "/V1/SANDBOXES", "/v1%2fsandboxes",
    "http://127.0.0.1/v1/sandboxes", "/docs/../v1/sandboxes", "/sandboxes", "/v1/sandboxes/", "*"])
def test_another_spelling_of_a_path_needs_the_key_too(prison, prisoner, target):
    status, body = ask(prison, "GET", target)
    assert status in (400, 401, 404, 405), body
    assert prisoner.id.encode() not in body


@pytest.mark.attack(by=NO_KEY)
@pytest.mark.parametrize("path", ["/command", "/files/info?path=/etc/passwd", "/metrics", "/ping", "/pty", "/session", "/code",
                                  "/proxy/44772/ping", "/files/download?path=/etc/passwd"])
def test_execd_wants_its_token(prison, prisoner, path):
    url = f"{prison.server.url}/sandboxes/{prisoner.id}/proxy/44772{path}"
    for headers in ({}, {next(iter(prisoner.headers)): "x" * 64}, {next(iter(prisoner.headers)): ""}):
        answer = httpx.get(url, headers=headers, trust_env=False)
        assert answer.status_code == 401, answer.text


@pytest.mark.attack(by="a holder of another sandbox's token")
def test_the_token_of_a_sandbox_opens_no_other(prison):
    mine, other = prison.shared(), prison.shared("neighbour")
    other.output("true")
    url = f"{prison.server.url}/sandboxes/{{}}/proxy/44772/command"
    body = {"command": "echo open"}
    assert "open" in httpx.post(url.format(mine.id), headers=mine.headers, json=body, trust_env=False).text
    assert httpx.post(url.format(other.id), headers=mine.headers, json=body, trust_env=False).status_code == 401
    for path in (f"{mine.id}/../{other.id}", f"{mine.id}/proxy/44772/../../../{other.id}", f"{mine.id}%2f..%2f{other.id}"):
        status, text = ask(prison, "POST", f"/sandboxes/{path}/proxy/44772/command",
                           [f"{name}: {value}" for name, value in mine.headers.items()], json.dumps(body).encode())
        assert status in (400, 401, 404), text


@pytest.mark.attack(by="a holder of a sandbox's token", on="native")
@pytest.mark.parametrize("method, path", ROUTES[:10], ids=lambda value: value.replace("/", "_"))
def test_the_token_of_a_sandbox_is_no_key(prison, prisoner, method, path):
    token = prisoner.token
    for name in ("X-EXECD-ACCESS-TOKEN", "OPEN-SANDBOX-API-KEY"):
        status, _ = ask(prison, method, path.format(id=prisoner.id), [f"{name}: {token}", "Content-Type: application/json"])
        assert status == 401


@pytest.mark.attack(by=NO_KEY, on="native")
@pytest.mark.parametrize("request_text", [
    "POST /health HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST /health HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "POST /health HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\n",
    "POST /health HTTP/1.1\r\nHost: x\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "POST /health HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "POST /health HTTP/1.1\r\nHost: x\r\nContent-Length: +0\r\n\r\n",
    "POST /health HTTP/1.1\r\nHost: x\r\nContent-Length: 0x0\r\n\r\n",
    "GET /health HTTP/1.1\r\nHost: x\r\n Folded: x\r\n\r\n"], ids=range(8))
def test_no_second_request_hides_in_the_first(prison, prisoner, request_text):
    """The hidden one carries the key, as a request of another client behind the same proxy would."""
    hidden = (f"GET /v1/sandboxes HTTP/1.1\r\nHost: x\r\nOPEN-SANDBOX-API-KEY: {prison.server.key}\r\n"
              "Connection: close\r\n\r\n")
    with socket.create_connection(("127.0.0.1", prison.server.port), timeout=60) as stream:
        stream.sendall((request_text + hidden).encode())
        answer = b""
        while piece := stream.recv(65536):
            answer += piece
    assert answer.startswith(b"HTTP/1.1 400 ") or answer.startswith(b"HTTP/1.1 501 "), answer
    assert answer.count(b"HTTP/1.1 ") == 1 and prisoner.id.encode() not in answer
