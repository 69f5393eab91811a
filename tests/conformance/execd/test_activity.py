"""GET /activity: whether a sandbox may be paused. The server asks when a sandbox with an idlePolicy seems idle."""

import contextlib
import os
import socket
import threading

import pytest
from code_runs import interrupt, live, new_context
from test_commands import parse
from test_pty import Pty


@pytest.fixture
def execd(start_execd):
    """One that nothing else uses."""
    return start_execd()


def report(execd):
    answer = execd.client.get("/activity")
    assert answer.status_code == 200
    return answer.json()


def until_idle(execd):
    """The last step of some work follows the last byte of its answer."""
    while report(execd)["active"]:
        os.sched_yield()


@contextlib.contextmanager
def stream_of_a_command(execd):
    with execd.client.stream("POST", "/command", json={"command": "echo begun; exec sleep 1000"}) as stream:
        lines = stream.iter_lines()
        id = parse((next(line for line in lines if "init" in line) + "\n\n").encode())[0]["text"]
        next(line for line in lines if "begun" in line)
        yield
        assert execd.client.delete("/command", params={"id": id}).status_code == 200


@contextlib.contextmanager
def command_in_the_background(execd):
    answer = execd.client.post("/command", json={"command": "exec sleep 1000", "background": True})
    id = parse(answer.content)[0]["text"]
    yield
    assert execd.client.delete("/command", params={"id": id}).status_code == 200


@contextlib.contextmanager
def command_whose_client_left(execd):
    with execd.client.stream("POST", "/command", json={"command": "echo begun; exec sleep 1000"}) as stream:
        id = parse((next(line for line in stream.iter_lines() if "init" in line) + "\n\n").encode())[0]["text"]
    yield
    assert execd.client.delete("/command", params={"id": id}).status_code == 200


@contextlib.contextmanager
def run_of_a_session(execd):
    session = execd.client.post("/session", json={}).json()["session_id"]
    fifo = execd.tmp / "fifo"
    os.mkfifo(fifo)
    with execd.client.stream("POST", f"/session/{session}/run", json={"command": f"read line <{fifo}"}) as stream:
        with open(fifo, "w") as writer:
            yield
            writer.write("go on\n")
        stream.read()


@contextlib.contextmanager
def code_whose_client_left(execd):
    context = new_context(execd, "bash")
    with live(execd, "echo begun; sleep 1000", context, "bash") as running:
        running.wait_output("begun")
    yield
    interrupt(execd, context)


@contextlib.contextmanager
def terminal_without_a_client(execd):
    id = execd.client.post("/pty", json={}).json()["session_id"]
    with Pty(execd, id) as terminal:
        terminal.connected()
    yield
    assert execd.client.delete(f"/pty/{id}").status_code == 200


@contextlib.contextmanager
def half_an_upload(execd):
    with socket.create_connection(("127.0.0.1", execd.port)) as peer:
        peer.sendall(b"POST /files/upload HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n"
                     b"Content-Type: multipart/form-data; boundary=b\r\n\r\n--b\r\n")
        yield


@contextlib.contextmanager
def connection_through_the_port_proxy(execd):
    asked = threading.Event()

    def serve(listener):
        peer, _ = listener.accept()
        with peer:
            peer.recv(65536)
            asked.set()
            peer.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=serve, args=[listener])
        server.start()
        with socket.create_connection(("127.0.0.1", execd.port)) as peer:
            peer.sendall(f"GET /proxy/{listener.getsockname()[1]}/ HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert asked.wait(60)
            yield
        server.join(60)


WORK = [stream_of_a_command, command_in_the_background, command_whose_client_left, run_of_a_session, code_whose_client_left,
        terminal_without_a_client, half_an_upload, connection_through_the_port_proxy]


@pytest.mark.parametrize("work", WORK, ids=lambda work: work.__name__)
def test_work_is_activity_until_it_ends(execd, work):
    assert not report(execd)["active"]
    with work(execd):
        # A half-sent request may not have arrived yet.
        while not (seen := report(execd))["active"]:
            os.sched_yield()
        assert seen["idle_ms"] == 0
    until_idle(execd)


def test_looking_is_no_activity(execd):
    assert execd.client.post("/command", json={"command": "true"}).status_code == 200
    until_idle(execd)
    before = -1
    for path in ("/ping", "/activity") * 3:
        assert execd.client.get(path).status_code == 200
        now = report(execd)
        assert not now["active"] and now["idle_ms"] >= before
        before = now["idle_ms"]


def test_an_idle_session_and_an_idle_context_are_no_activity(execd):
    """They are kept: a paused sandbox loses none of them."""
    assert execd.client.post("/session", json={}).status_code in (200, 201)
    new_context(execd, "bash")
    until_idle(execd)


def test_the_token_is_asked_for(token_execd):
    assert token_execd.client.get("/activity", headers={"X-EXECD-ACCESS-TOKEN": "wrong"}).status_code == 401
