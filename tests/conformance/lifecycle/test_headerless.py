"""Clients that cannot send the headers of an endpoint get execd's token in its path: docs/design/0004."""

import http.client
import json
import signal
from typing import NamedTuple

import pytest
import websockets.exceptions
import websockets.sync.client

from server_process import Server

AGENT = "OpenSandbox-Kotlin-SDK/"
SETTINGS = {"server": {"headerless_clients": [AGENT]}}
# Answers with the path it was asked for; the first process returns when it listens.
LISTENER = """
import http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.path.encode())
http.server.ThreadingHTTPServer.request_queue_size = 128
server = http.server.ThreadingHTTPServer(('0.0.0.0', 8000), Handler)
if os.fork() == 0:
    os.setsid()
    nothing = os.open('/dev/null', os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    server.serve_forever()
os._exit(0)
"""


@pytest.fixture(scope="module")
def server(daemon, tmp_path_factory):
    audit = tmp_path_factory.mktemp("logs") / "audit.log"
    running = Server(daemon, settings={**SETTINGS, "log": {"level": "DEBUG", "audit_file_path": str(audit)}})
    running.audit = audit
    yield running
    running.close()


@pytest.fixture
def sandbox(server):
    return server.create(env={"GREETING": "inside"})["id"]


def endpoint(server, id, port=44772, agent=AGENT + "1.0.0", **query):
    response = server.client.get(f"/sandboxes/{id}/endpoints/{port}", headers={"User-Agent": agent}, params=query)
    assert response.status_code == 200, response.text
    return response.json()


class Answer(NamedTuple):
    status: int
    text: str


def raw(base, path="", method="GET", body=None, headers=None):
    """A request for exactly these bytes: httpx would tidy dots away. Without key and headers of an endpoint."""
    host, slash, before = base.removeprefix("http://").partition("/")
    connection = http.client.HTTPConnection(host, timeout=60)
    try:
        connection.request(method, slash + before + path, json.dumps(body) if body is not None else None, headers or {})
        answer = connection.getresponse()
        return Answer(answer.status, answer.read().decode())
    finally:
        connection.close()


def endpoints(server, id):
    """The endpoints of execd for clients, direct and through the server's proxy, and the token."""
    direct = endpoint(server, id)
    token = direct["headers"]["X-EXECD-ACCESS-TOKEN"]
    host, slash, rest = server.daemon.direct_endpoint(id, 44772).partition("/")
    assert direct["endpoint"] == f"{host}/access-token/{token}{slash}{rest}"
    proxied = endpoint(server, id, use_server_proxy="true")
    assert proxied["endpoint"] == f"127.0.0.1:{server.port}/sandboxes/{id}/proxy/44772/access-token/{token}"
    return [f"http://{each['endpoint']}" for each in (direct, proxied)], token


def ways(server, id):
    """The same up to the token: what an engine adds behind it leads to execd again."""
    bases, token = endpoints(server, id)
    return [base.partition(token)[0] + token for base in bases], token


def test_only_the_clients_that_are_listed_get_it(server, sandbox):
    for agent in ("python-httpx/0.28", "", "opensandbox-kotlin-sdk/1.0.0", "x OpenSandbox-Kotlin-SDK/1.0.0"):
        told = endpoint(server, sandbox, agent=agent)
        assert "access-token" not in told["endpoint"] and told["headers"]["X-EXECD-ACCESS-TOKEN"]
    stranger = raw(server.url, f"/sandboxes/{sandbox}/endpoints/44772", headers={"User-Agent": AGENT + "1.0.0"})
    assert stranger.status == 401


@pytest.mark.on_docker
def test_commands_files_and_terminals_work_on_both_ways(server, sandbox):
    for base in endpoints(server, sandbox)[0]:
        assert raw(base, "/ping").status == 200
        said = raw(base, "/command", "POST", {"command": "echo one; echo \"$GREETING\""})
        texts = [json.loads(line).get("text") for line in said.text.split("\n\n") if line.strip()]
        assert texts[1:3] == ["one", "inside"]
        assert json.loads(raw(base, "/files/info?path=/etc/hostname&path=/etc").text).keys() == {"/etc/hostname", "/etc"}
        terminal = json.loads(raw(base, "/pty", "POST", {}).text)["session_id"]
        with websockets.sync.client.connect(f"{base.replace('http', 'ws', 1)}/pty/{terminal}/ws", proxy=None) as socket:
            assert json.loads(socket.recv(timeout=60))["type"] == "connected"


@pytest.mark.on_docker
def test_ports_are_reached_without_headers(server, sandbox):
    server.run(sandbox, f"python3 - <<'END'\n{LISTENER}END\n")
    for query in ({}, {"use_server_proxy": "true"}):
        told = endpoint(server, sandbox, 8000, **query)
        assert raw(f"http://{told['endpoint']}", "/a%2Fb?c=d").text == "/a%2Fb?c=d"


def test_nothing_else_opens(server, sandbox):
    bases, token = ways(server, sandbox)
    wrong = token[:-1] + ("0" if token[-1] != "0" else "1")
    tricks = [f"/access-token/{wrong}/ping", f"/access-token/{token[:-1]}/ping", f"/access-token/{token}0/ping",
              f"/access-token/{token.upper()}x/ping", "/access-token//ping", "/access-token/", "/access-token",
              f"//access-token/{token}/ping", f"/access-token//{token}/ping", f"/./access-token/{token}/ping",
              f"/Access-Token/{token}/ping", f"/%61ccess-token/{token}/ping", f"/access-token%2F{token}/ping",
              f"/access-token/{token}%2Fping", f"/access-token/%{ord(token[0]):x}{token[1:]}/ping",
              f"/access-token/{token}%00/ping", f"/access-token/{token};a=b/ping", f"/access-token?{token}",
              f"/ping?access-token={token}", f"/ping/access-token/{token}", f"/{token}/ping",
              f"/proxy/44772/access-token/{token}/ping", f"/access-token/{wrong}/access-token/{token}/ping"]
    for base in bases:
        base = base.removesuffix(f"/access-token/{token}")
        for trick in tricks:
            assert raw(base, trick).status == 401, trick
        # Dots: on the way through the server they need the API key; execd does not follow them.
        for trick in (f"/x/../access-token/{token}/ping", f"/access-token/x/../{token}/ping"):
            assert raw(base, trick).status == 401, trick
        header = {"X-EXECD-ACCESS-TOKEN": token}
        assert raw(base, f"/access-token/{wrong}/ping", headers=header).status == 401
        assert raw(base, f"/access-token/{token}/access-token/{token}/ping").status == 404
        with pytest.raises(websockets.exceptions.WebSocketException):
            with websockets.sync.client.connect(f"{base.replace('http', 'ws', 1)}/access-token/{wrong}/pty/x/ws",
                                                proxy=None) as socket:
                socket.recv(timeout=60)
    other = server.create()["id"]
    for base in ways(server, other)[0]:
        base = base.rpartition("/")[0]
        assert raw(base, f"/{token}/ping").status == 401, "the token of another sandbox"


def test_no_log_shows_it(server, sandbox):
    bases, token = ways(server, sandbox)
    for base in bases:
        assert raw(base, "/ping").status == 200
        assert raw(base, "/command", "POST", {"command": "true"}).status == 200
        stripped = base.removesuffix(f"/access-token/{token}")
        for trick in (f"//access-token/{token}/ping", f"/%61ccess-token/{token}/ping", f"/access-token%2F{token}/ping",
                      f"/ACCESS-TOKEN/{token}/ping", f"/access-token/{token}x/ping"):
            assert raw(stripped, trick).status == 401
        #  A port without a listener.
        raw(stripped.replace("/44772", "/9"), f"/access-token/{token}/ping")
    # The access log is written when an answer has gone.
    with server.saying("path=/marker"):
        raw(server.url, "/marker")
    written = {"server": server.log(), "audit": server.audit.read_text(), "backend": server.daemon.log()}
    for name, text in written.items():
        assert token not in text, name
    assert f"path=/sandboxes/{sandbox}/proxy/44772/access-token/***/ping" in written["server"]
    audit = [json.loads(line) for line in written["audit"].splitlines()]
    ran = [each for each in audit if each["action"] == "exec" and each["sandbox"] == sandbox]
    assert [each["key"] for each in ran] == ["execd-token"], "the one command through the proxy"
    for what in ("logs", "events", "inspect", "summary"):
        assert token not in server.client.get(f"/sandboxes/{sandbox}/diagnostics/{what}").text, what


def test_without_the_setting_no_client_gets_it_and_it_can_be_reloaded(make_server):
    server = make_server()
    id = server.create()["id"]
    told = endpoint(server, id)
    assert "access-token" not in told["endpoint"] and told["headers"]["X-EXECD-ACCESS-TOKEN"]
    server.config.write_text(server.config.read_text().replace("[server]", f'[server]\nheaderless_clients = ["{AGENT}"]'))
    with server.saying("settings reloaded"):
        server.process.send_signal(signal.SIGHUP)
    assert raw(f"http://{endpoint(server, id)['endpoint']}", "/ping").status == 200
    server.remove_all()
