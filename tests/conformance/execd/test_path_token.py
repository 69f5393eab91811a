"""The access token in front of the path, for clients that cannot send its header: docs/design/0004."""

import http.client
import json

import pytest
import websockets.exceptions
import websockets.sync.client


def raw(execd, path, method="GET", body=None):
    """(status, text) for exactly these bytes: httpx would tidy dots away. Without the header."""
    connection = http.client.HTTPConnection("127.0.0.1", execd.port, timeout=60)
    try:
        connection.request(method, path, json.dumps(body) if body is not None else None)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_every_route_is_below_it(token_execd):
    base = f"/access-token/{token_execd.token}"
    assert raw(token_execd, f"{base}/ping")[0] == 200
    said = raw(token_execd, f"{base}/command", "POST", {"command": "echo hello"})[1]
    assert json.loads(said.split("\n\n")[1])["text"] == "hello"
    assert json.loads(raw(token_execd, f"{base}/files/info?path=/etc")[1]).keys() == {"/etc"}
    assert raw(token_execd, f"{base}/proxy/{token_execd.port}/ping")[0] == 200, "the port is execd's own"
    terminal = json.loads(raw(token_execd, f"{base}/pty", "POST", {})[1])["session_id"]
    url = f"{token_execd.url.replace('http', 'ws', 1)}{base}/pty/{terminal}/ws"
    with websockets.sync.client.connect(url, proxy=None) as socket:
        assert json.loads(socket.recv(timeout=60))["type"] == "connected"
    assert raw(token_execd, f"{base}/pty/{terminal}", "DELETE")[0] == 200


TRICKS = ["/access-token/wrong/ping", "/access-token/{t}x/ping", "/access-token/x{t}/ping", "/access-token//ping",
          "/access-token/", "/access-token", "/access-token/{t}%00/ping", "/access-token/%63onformance-token/ping",
          "/access-token/{t}%2Fping", "/access-token/{t};/ping", "//access-token/{t}/ping", "/./access-token/{t}/ping",
          "/x/../access-token/{t}/ping", "/access-token/./{t}/ping", "/access-token/x/../{t}/ping",
          "/access-token//{t}/ping", "/Access-Token/{t}/ping", "/%61ccess-token/{t}/ping", "/access-token%2F{t}/ping",
          "/access-token?{t}", "/ping?access-token={t}", "/ping/access-token/{t}", "/{t}/ping",
          "/proxy/44772/access-token/{t}/ping", "/access-token/wrong/access-token/{t}/ping"]


@pytest.mark.parametrize("trick", TRICKS)
def test_no_other_spelling_opens_anything(token_execd, trick):
    status, text = raw(token_execd, trick.format(t=token_execd.token))
    assert (status, json.loads(text)["code"]) == (401, "UNAUTHORIZED")
    assert token_execd.token not in text


def test_a_right_header_does_not_help_a_wrong_path(token_execd):
    assert token_execd.client.get("/access-token/wrong/ping").status_code == 401


def test_it_opens_no_more_than_the_header(token_execd):
    base = f"/access-token/{token_execd.token}"
    for path in (f"{base}/access-token/{token_execd.token}/ping", f"{base}/../ping", f"{base}//ping", base,
                 f"{base}/proxy/{token_execd.port}{base}/ping"):
        assert raw(token_execd, path)[0] == 404, path
    with pytest.raises(websockets.exceptions.InvalidStatus):
        websockets.sync.client.connect(f"{token_execd.url.replace('http', 'ws', 1)}/access-token/wrong/pty/x/ws", proxy=None)


def test_an_execd_without_token_knows_no_such_path(execd):
    assert raw(execd, "/access-token/any/ping")[0] == 404


def test_logs_do_not_show_it(start_execd):
    execd = start_execd(token="s3cret-of-the-log", args=["--log-level=7"])
    for path in ("/access-token/{t}/ping", "/access-token/{t}/no/route", "/access-token/{t}x/ping", "//access-token/{t}/ping",
                 "/{t}/ping", "/access-token%2F{t}/ping"):
        raw(execd, path.format(t=execd.token))
    execd.client.get(f"{execd.url}//access-token/{execd.token}/with-the-header")
    execd.stop()
    log = execd.log()
    assert "/no/route" in log, "the log has the requests"
    assert execd.token not in log
