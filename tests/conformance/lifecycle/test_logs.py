"""The output of an entrypoint, streamed as it comes: GET /sandboxes/{id}/diagnostics/logs/stream."""

import base64
import concurrent.futures
import contextlib
import datetime
import json
import socket
import threading
import time

import httpx
import pytest
from spec_check import SpecCheck

LINES = 100_000
MANY_LINES = f"seq -f 'line number %.0f of very many, as long as lines are' 1 {LINES}"


def many_lines():
    return b"".join(b"line number %d of very many, as long as lines are\n" % number for number in range(1, LINES + 1))


@pytest.fixture(scope="module")
def matches():
    check = SpecCheck()
    yield check
    check.close()


@contextlib.contextmanager
def followed(server, id, **params):
    """The events of the stream, as they come; on a connection of its own, which outlives the server's client."""
    path = f"{server.url}/v1/sandboxes/{id}/diagnostics/logs/stream"
    with httpx.Client(headers=server.client.headers, timeout=120, trust_env=False) as client, \
            client.stream("GET", path, params=params) as stream:
        assert stream.status_code == 200, stream.read()
        assert stream.headers["content-type"].startswith("text/event-stream")
        yield (event for event in (json.loads(line) for line in stream.iter_lines() if line) if event["type"] != "ping")


def events_of(server, id, **params):
    with followed(server, id, **params) as events:
        return list(events)


def bytes_of(events):
    pieces = [event["text"].encode() if "text" in event else base64.b64decode(event["base64"])
              for event in events if event["type"] == "output"]
    return b"".join(pieces)


def next_line(events):
    """Output up to a newline, however many events it takes."""
    text = b""
    while not text.endswith(b"\n"):
        event = next(events)
        assert event["type"] == "output", event
        text += bytes_of([event])
    return text


def ended(server, script):
    id = server.post_sandbox(entrypoint=["sh", "-c", script]).json()["id"]
    server.wait_state(id, "Terminated", "Failed")
    return id


def waiting(server, script):
    """The id of a sandbox that runs the script; `go N` in it waits for the N-th permission."""
    go = "go() { until [ -e /tmp/go$1 ]; do sleep 0.05; done; }; "
    return server.create(entrypoint=["sh", "-c", go + script])["id"]


def let_go(server, id, number):
    """Not by a command: execd notes those in its own log, which an engine keeps with the entrypoint's."""
    response = httpx.post(f"{server.url}/sandboxes/{id}/proxy/44772/directories", headers=server.token(id), timeout=120,
                          json={f"/tmp/go{number}": {"mode": 755}}, trust_env=False)
    # 502: the entrypoint has ended, and its container, before the answer was out.
    assert response.status_code in (200, 502), response.text


@pytest.mark.on_docker
def test_lines_come_as_they_are_written_until_the_end(server, matches):
    id = waiting(server, "echo first; go 1; echo second; go 2; exit 3")
    with followed(server, id) as events:
        first = next(events)
        assert first["text"] == "first\n"
        let_go(server, id, 1)
        second = next(events)
        assert second["text"] == "second\n"
        let_go(server, id, 2)
        rest = list(events)
    assert [event["type"] for event in rest] == ["end"]
    assert (rest[0]["state"], rest[0]["exitCode"]) == ("Failed", 3)
    for event in (first, second, *rest):
        matches("diagnostics.yaml", "LogEvent", event)
    assert first["time"] < second["time"]


@pytest.mark.on_docker
def test_one_that_has_ended_is_told_at_once(server, matches):
    id = ended(server, "echo one; echo two")
    events = events_of(server, id)
    assert bytes_of(events) == b"one\ntwo\n"
    assert [event["type"] for event in events] == ["output", "output", "end"]
    assert (events[-1]["state"], events[-1]["exitCode"]) == ("Terminated", 0)
    matches("diagnostics.yaml", "LogEvent", events[-1])
    assert bytes_of(events_of(server, id, tail=1)) == b"two\n"
    assert bytes_of(events_of(server, id, tail=0)) == b""
    assert bytes_of(events_of(server, id, since="1h", tail=100)) == b"one\ntwo\n"


@pytest.mark.on_docker
def test_without_follow_it_ends_with_the_present_output(server):
    id = waiting(server, "echo one; echo two; go 1")
    with followed(server, id) as events:
        assert [next_line(events), next_line(events)] == [b"one\n", b"two\n"]
    events = events_of(server, id, follow="false")
    assert bytes_of(events) == b"one\ntwo\n"
    assert (events[-1]["type"], events[-1]["state"]) == ("end", "Running")
    assert "exitCode" not in events[-1]


def asked_in_between(before, after, ask):
    """The answer to ask(since=..) with a moment between the two, whenever it is asked."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        asked = time.time()
        seconds = int(asked - (before + after) / 2)
        answer = ask(since=f"{seconds}s")
        # The server has counted back from some moment in between.
        if before < asked - seconds and time.time() - seconds < after:
            return answer
    raise AssertionError("never answered quickly enough to know what it had been asked")


@pytest.mark.on_docker
def test_since_begins_in_the_middle(server):
    id = waiting(server, "echo early; go 1; sleep 6; echo late; go 2")
    with followed(server, id) as events:
        early = next(events)
        let_go(server, id, 1)
        late = next(events)
    assert (early["text"], late["text"]) == ("early\n", "late\n")
    moments = [datetime.datetime.fromisoformat(event["time"][:19] + "+00:00").timestamp() for event in (early, late)]
    before, after = moments[0] + 1, moments[1]  # whole seconds: the first is up to one later

    def text(**params):
        return server.client.get(f"/v1/sandboxes/{id}/diagnostics/logs", params=params).text

    def content(**params):
        return server.client.get(f"/v1/sandboxes/{id}/diagnostics/logs", params={"scope": "container", **params}).json()

    events = asked_in_between(before, after, lambda since: events_of(server, id, follow="false", since=since))
    assert bytes_of(events) == b"late\n"
    assert server.daemon.entrypoint_output(asked_in_between(before, after, text)) == "late\n"
    body = asked_in_between(before, after, content)
    assert server.daemon.entrypoint_output(body["content"]) == "late\n"
    assert "warnings" not in body
    assert bytes_of(events_of(server, id, follow="false", since="1h")) == b"early\nlate\n"


def test_of_many_lines_none_is_lost(server):
    id = waiting(server, f"go 1; {MANY_LINES}")
    with followed(server, id) as events:
        let_go(server, id, 1)
        everything = list(events)
    assert everything[-1]["type"] == "end"
    assert bytes_of(everything) == many_lines()


@pytest.mark.on_docker
def test_a_reader_that_is_slow_gets_all_of_it_later(server):
    # More than all buffers on the way together take.
    id = waiting(server, f"go 1; {MANY_LINES}")
    with socket.create_connection(("127.0.0.1", server.port), timeout=120) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 256 << 10)  # for good: it grows no more
        slow.sendall(f"GET /v1/sandboxes/{id}/diagnostics/logs/stream HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                     f"OPEN-SANDBOX-API-KEY: {server.key}\r\n\r\n".encode())
        assert slow.recv(9) == b"HTTP/1.1 "
        let_go(server, id, 1)
        server.wait_state(id, "Terminated")  # the slow reader delays nothing else
        stream = slow.makefile("rb")
        events = [json.loads(line) for line in stream if line.startswith(b'{"type":')]
    assert bytes_of(events) == many_lines()
    assert events[-1]["type"] == "end"


@pytest.mark.on_docker
def test_a_last_line_without_an_end(server):
    id = waiting(server, "printf 'one\\nname? '; go 1; printf 'x'")
    with followed(server, id) as events:
        assert next_line(events) == b"one\n"
        if server.daemon.code_prefix == "NATIVE":  # engines keep a line back until it is whole
            asked = b""
            while asked != b"name? ":
                asked += bytes_of([next(events)])
            let_go(server, id, 1)
            assert bytes_of(events) == b"x"
        else:
            let_go(server, id, 1)
            assert bytes_of(events).rstrip(b"\n") == b"name? x"
    assert bytes_of(events_of(server, id)).rstrip(b"\n") == b"one\nname? x"


@pytest.mark.on_docker
def test_bytes_that_are_no_text_arrive_as_they_were_written(server, matches):
    id = ended(server, r"printf 'a\377\000\033[1mb\r\nz\303\274rich\n'")
    events = events_of(server, id)
    if server.daemon.code_prefix == "NATIVE":
        assert bytes_of(events) == b"a\xff\0\x1b[1mb\r\nz\xc3\xbcrich\n"
        assert ["base64" in event for event in events] == [True, False, False]
    else:  # engines keep text
        assert bytes_of(events) == b"a\xef\xbf\xbd\0\x1b[1mb\r\nz\xc3\xbcrich\n"
    for event in events:
        matches("diagnostics.yaml", "LogEvent", event)


@pytest.mark.on_docker
def test_output_that_looks_like_a_time_is_output(server):
    id = ended(server, "echo 2001-01-01T00:00:00.000000000Z fake; echo next")
    events = events_of(server, id, since="1h")
    assert bytes_of(events) == b"2001-01-01T00:00:00.000000000Z fake\nnext\n"
    assert all(event["time"] > "2020" for event in events if event["type"] == "output")


@pytest.mark.on_docker
def test_a_sandbox_that_is_removed_ends_its_streams_with_an_error(server, matches):
    id = waiting(server, "echo one; go 1")
    with followed(server, id) as events:
        assert next_line(events) == b"one\n"
        server.delete(id)
        rest = list(events)
    assert [event["type"] for event in rest] == ["error"]
    assert rest[0]["code"] == server.code("SANDBOX_NOT_FOUND")
    matches("diagnostics.yaml", "LogEvent", rest[0])


def test_several_read_the_same_log(server):
    id = waiting(server, "echo begin; go 1; seq 1 1000")

    def read(_):
        with followed(server, id) as events:
            assert next_line(events) == b"begin\n"
            begun.release()
            return bytes_of(events)

    begun = threading.Semaphore(0)
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        readers = [pool.submit(read, number) for number in range(10)]
        for _ in readers:
            assert begun.acquire(timeout=120)
        let_go(server, id, 1)
        wanted = b"".join(b"%d\n" % number for number in range(1, 1001))
        assert [reader.result(120) for reader in readers] == [wanted] * 10


def test_invalid_requests_are_explained(server):
    id = server.create()["id"]
    for path in ("/v1/sandboxes", "/sandboxes"):
        response = server.client.get(f"{path}/unknown/diagnostics/logs/stream")
        assert (response.status_code, response.json()["code"]) == (404, server.code("SANDBOX_NOT_FOUND"))
    for params in ({"tail": -1}, {"tail": "x"}, {"follow": "maybe"}):
        assert server.client.get(f"/v1/sandboxes/{id}/diagnostics/logs/stream", params=params).status_code == 422, params
    assert server.client.get(f"/v1/sandboxes/{id}/diagnostics/logs/stream", headers={"OPEN-SANDBOX-API-KEY": "no"},
                             ).status_code == 401


def test_one_that_never_ran_has_an_empty_log(server):
    id = server.create_failing(image={"uri": "127.0.0.1:1/no/such:image"})
    assert [(event["type"], event["state"]) for event in events_of(server, id)] == [("end", "Failed")]


@pytest.mark.on_docker
def test_a_server_that_stops_says_so_and_the_log_outlives_it(make_server):
    server = make_server()
    id = waiting(server, "echo before; go 1; echo after; go 2")
    with followed(server, id) as events:
        assert next_line(events) == b"before\n"
        server.stop()
        rest = list(events)
    assert [(event["type"], event["code"]) for event in rest] == [("error", "GENERAL::SHUTTING_DOWN")]
    server.start()
    server.kill()
    server.start()
    with followed(server, id) as events:
        assert next_line(events) == b"before\n"
        let_go(server, id, 1)
        assert next_line(events) == b"after\n"
    server.remove_all()
