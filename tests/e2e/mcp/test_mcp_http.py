"""The streamable HTTP transport with raw requests: who may connect, sessions, streams that continue, clean-up."""

import json
import socket
import subprocess
import sys
import threading

import pytest

from mcp_process import HttpMcp, data_of, initialize, last_message, messages, tool

PING = {"jsonrpc": "2.0", "id": "ping", "method": "ping"}
TOKEN = "a-token-for-tests"


@pytest.fixture(scope="module")
def mcp(server):
    running = HttpMcp(server, token=TOKEN)
    yield running
    assert running.stop() == 0


@pytest.fixture
def session(mcp):
    id = mcp.open_session()
    yield id
    mcp.client.delete(mcp.url, headers={"Mcp-Session-Id": id})


def test_the_token_is_needed(mcp):
    for header in [None, "Bearer wrong", "Bearer " + TOKEN + "x", "Bearer", "Basic " + TOKEN, TOKEN, ""]:
        response = mcp.client.post(mcp.url, json=initialize(), headers={"Authorization": header or ""})
        assert response.status_code == 401, header
        assert response.headers["WWW-Authenticate"] == "Bearer"
    assert mcp.client.get(mcp.url, headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert mcp.client.delete(mcp.url, headers={"Authorization": "Bearer wrong"}).status_code == 401


def test_pages_of_elsewhere_are_refused(server):
    running = HttpMcp(server, "--allow-origin", "https://chat.example.com")
    try:
        rows = [("http://evil.example.com", 403), ("http://127.0.0.1.evil.example.com", 403), ("null", 403),
                ("http://localhost.evil.example.com:3000", 403), ("http://localhost:3000", 200),
                ("http://127.0.0.1:6274", 200), ("http://[::1]:6274", 200), ("https://chat.example.com", 200)]
        for origin, status in rows:
            response = running.client.post(running.url, json=initialize(), headers={"Origin": origin})
            assert response.status_code == status, origin
            assert response.headers.get("Access-Control-Allow-Origin") == (origin if status == 200 else None)
        #  A foreign name that resolves to this address (DNS rebinding).
        assert running.client.post(running.url, json=initialize(), headers={"Host": "evil.example.com:8000"}).status_code == 403
        preflight = running.client.options(running.url, headers={"Origin": "https://chat.example.com",
                                                                 "Access-Control-Request-Method": "POST"})
        assert preflight.status_code == 204
        assert "Mcp-Session-Id" in preflight.headers["Access-Control-Allow-Headers"]
    finally:
        assert running.stop() == 0


def test_requests_that_are_none(mcp, session):
    def post(content, **headers):
        return mcp.client.post(mcp.url, content=content, headers={"Content-Type": "application/json", **headers})

    assert post(b"nonsense").status_code == 400
    assert post(b"nonsense").json()["error"]["code"] == -32700
    assert post(b"[" * 100_000).json()["error"]["code"] == -32700
    assert post(b"{}").json()["error"]["code"] == -32600
    assert mcp.client.post(mcp.url, content=b"{}", headers={"Content-Type": "text/plain"}).status_code == 415
    assert mcp.post(PING, session, Accept="text/html").status_code == 406
    assert mcp.post(PING).status_code == 400
    assert mcp.post(PING, "no-such-session").status_code == 404
    assert mcp.post(PING, session, MCP_Protocol_Version="1999-01-01").status_code == 400
    assert mcp.post(PING, session, MCP_Protocol_Version="2025-06-18").status_code == 200
    assert mcp.post(initialize(), session).status_code == 400
    assert mcp.post({"jsonrpc": "2.0", "id": 1, "method": "none/such"}, session).json()["error"]["code"] == -32601
    assert last_message(mcp.post([PING, PING], session))["error"]["code"] == -32600
    assert mcp.client.put(mcp.url).status_code == 405
    assert mcp.client.post(mcp.url + "/more", json=PING).status_code == 404
    assert mcp.client.get(mcp.url, headers={"Accept": "text/html", "Mcp-Session-Id": session}).status_code == 406
    assert mcp.client.get(mcp.url, headers={"Accept": "text/event-stream"}).status_code == 400
    large = post(b'"' + b"x" * (33 << 20) + b'"')
    assert large.status_code == 413
    assert mcp.post(PING, session).json()["result"] == {}


def test_notifications_are_accepted(mcp, session):
    assert mcp.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, session).status_code == 202
    assert mcp.post({"jsonrpc": "2.0", "id": 1, "result": {}}, session).status_code == 202


def test_batches_of_the_version_that_had_them(mcp):
    session = mcp.open_session("2025-03-26")
    answers = messages(mcp.post([PING, {**PING, "id": 2}], session))
    assert [answer["id"] for answer in answers] == ["ping", 2]
    assert mcp.client.delete(mcp.url, headers={"Mcp-Session-Id": session}).status_code == 204


def test_who_takes_no_stream_gets_one_object(mcp, session):
    id = mcp.call(session, "sandbox_create", image="host")["sandbox_id"]
    message = tool(1, "command_run", sandbox_id=id, command="echo hello")
    message["params"]["_meta"] = {"progressToken": 1}
    response = mcp.post(message, session, Accept="application/json")
    assert response.headers["Content-Type"].startswith("application/json")
    assert data_of(response.json()["result"])["exit_code"] == 0


def test_sessions_do_not_see_each_other(mcp, session):
    id = mcp.call(session, "sandbox_create", image="host")["sandbox_id"]
    other = mcp.open_session()
    assert [info["id"] for info in mcp.call(session, "sandbox_list")["sandbox_infos"]] == [id]
    assert mcp.call(other, "sandbox_list")["sandbox_infos"] == []
    assert mcp.post({"jsonrpc": "2.0", "id": 1, "method": "resources/list"}, other).json()["result"]["resources"] == []
    refused = last_message(mcp.post(tool(1, "command_run", sandbox_id=id, command="true"), other))["result"]
    assert refused["isError"]
    #  A client that knows the id may connect.
    run = mcp.call(other, "command_run", sandbox_id=id, command="true", connect_if_missing=True)
    assert run["exit_code"] == 0
    assert mcp.client.delete(mcp.url, headers={"Mcp-Session-Id": other}).status_code == 204
    assert mcp.call(session, "sandbox_get_info", sandbox_id=id)["status"]["state"] == "Running"


def test_delete_ends_a_session_and_its_sandboxes(server, mcp):
    session = mcp.open_session()
    id = mcp.call(session, "sandbox_create", image="host")["sandbox_id"]
    assert mcp.client.delete(mcp.url, headers={"Mcp-Session-Id": session}).status_code == 204
    assert server.state(id) == 404
    assert mcp.post(PING, session).status_code == 404


def test_a_lost_stream_is_continued(server, mcp, session):
    id = mcp.call(session, "sandbox_create", image="host")["sandbox_id"]
    mcp.call(session, "command_run", sandbox_id=id, command="mkfifo /root/go")
    run = tool("long", "command_run", sandbox_id=id, command="echo first; read -r _ < /root/go; echo second")
    run["params"]["_meta"] = {"progressToken": "p"}
    headers = {"Mcp-Session-Id": session}
    last = None
    with mcp.client.stream("POST", mcp.url, json=run, headers=headers) as response:
        for line in response.iter_lines():
            if line.startswith("id: "):
                last = line[4:]
            if "first" in line:
                break
    # The connection is gone; the command is not.
    mcp.call(session, "command_run", sandbox_id=id, command="echo > /root/go")
    rest = mcp.client.get(mcp.url, headers={**headers, "Accept": "text/event-stream", "Last-Event-ID": last})
    assert rest.status_code == 200
    answer = last_message(rest)
    assert answer["id"] == "long"
    assert data_of(answer["result"])["stdout"] == "first\nsecond\n"
    assert not any("first" in json.dumps(message.get("params", "")) for message in messages(rest))
    # There is nothing more to come.
    over = [line[4:] for line in rest.text.splitlines() if line.startswith("id: ")][-1]
    again = mcp.client.get(mcp.url, headers={**headers, "Accept": "text/event-stream", "Last-Event-ID": over})
    assert again.status_code == 204


def test_messages_without_a_request_come_over_the_other_stream(mcp, session):
    heard = threading.Event()
    listening = threading.Event()
    kinds = []

    def listen():
        with mcp.client.stream("GET", mcp.url, headers={"Mcp-Session-Id": session, "Accept": "text/event-stream"}) as stream:
            assert stream.status_code == 200
            listening.set()
            for line in stream.iter_lines():
                if line.startswith("data: {"):
                    kinds.append(json.loads(line[6:])["method"])
                    heard.set()

    listener = threading.Thread(target=listen)
    listener.start()
    assert listening.wait(30)
    mcp.call(session, "sandbox_create", image="host")
    assert heard.wait(30)
    assert kinds[0] == "notifications/resources/list_changed"
    assert mcp.client.delete(mcp.url, headers={"Mcp-Session-Id": session}).status_code == 204
    listener.join(30)  # the stream ends with the session
    assert not listener.is_alive()


# Begins a session, makes a sandbox in it, listens to its stream, says both ids and waits to be killed.
CLIENT = """
import httpx, json, sys
client = httpx.Client(headers={"Accept": "application/json, text/event-stream"}, timeout=None, trust_env=False)
begin, create = json.loads(sys.argv[2])
session = client.post(sys.argv[1], json=begin).headers["Mcp-Session-Id"]
with client.stream("GET", sys.argv[1], headers={"Mcp-Session-Id": session}) as stream:
    headers = {"Mcp-Session-Id": session, "Accept": "application/json"}
    made = client.post(sys.argv[1], json=create, headers=headers).json()
    print(session, json.loads(made["result"]["content"][0]["text"])["sandbox_id"], flush=True)
    for line in stream.iter_lines():
        pass
"""


def test_a_client_that_is_killed_takes_its_sandboxes_along(server):
    running = HttpMcp(server, "--session-timeout-seconds", "4")
    script = json.dumps([initialize(), tool("create", "sandbox_create", image="host")])
    client = subprocess.Popen([sys.executable, "-c", CLIENT, running.url, script], stdout=subprocess.PIPE, text=True)
    session, id = client.stdout.readline().split()
    assert running.call(session, "command_run", sandbox_id=id, command="true")["exit_code"] == 0
    client.kill()
    client.wait()
    client.stdout.close()
    server.wait_state(id, "deleted")
    assert running.post(PING, session).status_code == 404
    assert running.stop() == 0


def test_sigterm_cleans_up(server):
    running = HttpMcp(server)
    ids = []
    for _ in range(2):
        session = running.open_session()
        ids.append(running.call(session, "sandbox_create", image="host")["sandbox_id"])
    assert running.stop() == 0
    assert [server.state(id) for id in ids] == [404, 404]


def test_keep_leaves_them(server):
    running = HttpMcp(server, "--keep")
    session = running.open_session()
    id = running.call(session, "sandbox_create", image="host")["sandbox_id"]
    assert running.stop() == 0
    assert server.state(id) == "Running"
    server.delete(id)


def test_half_a_request_harms_no_other_client(mcp, session):
    host, port = mcp.url.split("/")[2].split(":")
    with socket.create_connection((host, int(port))) as rude:
        rude.sendall(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + TOKEN.encode() +
                     b"\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
        assert mcp.post(PING, session).status_code == 200
    assert mcp.post(PING, session).status_code == 200
