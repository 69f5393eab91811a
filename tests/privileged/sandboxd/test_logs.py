"""The output of entrypoints: with times, followed without polling, and kept when the daemon dies."""

import os
import re

import httpx
import pytest

STAMP = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z ")
GO = "go() { until [ -e /tmp/go$1 ]; do sleep 0.05; done; }; "


def plain(log):
    lines = log.splitlines(keepends=True)
    assert all(STAMP.match(line) for line in lines), log
    return b"".join(line[31:] for line in lines)


def stream(daemon, id, **params):
    return daemon.client.stream("GET", f"/v1/sandboxes/{id}/logs/stream", params=params)


def whole(daemon, id, **params):
    response = daemon.client.get(f"/v1/sandboxes/{id}/logs/stream", params=params)
    assert response.status_code == 200, response.text
    return response.content


def test_it_can_be_had_with_times_and_without(daemon):
    daemon.create("timed", entrypoint=["sh", "-c", "echo one; printf 'two\\n\\nthree'"])
    daemon.wait_for_end("timed")
    assert daemon.client.get("/v1/sandboxes/timed/logs").content == b"one\ntwo\n\nthree"
    assert plain(daemon.client.get("/v1/sandboxes/timed/logs", params={"times": 1}).content) == b"one\ntwo\n\nthree"
    assert plain(whole(daemon, "timed")) == b"one\ntwo\n\nthree"
    assert plain(whole(daemon, "timed", follow=1)) == b"one\ntwo\n\nthree"
    assert plain(whole(daemon, "timed", tail=2)) == b"\nthree"
    lines = whole(daemon, "timed").splitlines()
    assert plain(whole(daemon, "timed", since=lines[0][:30].decode())) == b"one\ntwo\n\nthree"
    assert whole(daemon, "timed", since="2999-01-01T00:00:00.000000000Z") == b""


def test_all_that_was_written_before_the_end_is_there(daemon):
    daemon.create("children", entrypoint=["sh", "-c", "(echo started; touch /tmp/go1; exec sleep 1000) & " + GO +
                                          "go 1; echo parent; exit 4"])
    status = daemon.wait_for_end("children")
    assert status["exit"]["code"] == 4, status
    assert plain(whole(daemon, "children")) == b"started\nparent\n"


def test_following_sees_all_of_it_and_ends_with_the_sandbox(daemon):
    sandbox = daemon.create("followed", entrypoint=["sh", "-c", GO + "go 1; seq 1 20000"])
    with stream(daemon, "followed", follow=1) as log:
        sandbox.output("touch /tmp/go1")
        assert plain(log.read()) == b"".join(b"%d\n" % i for i in range(1, 20001))


def test_a_removal_breaks_the_stream_off(daemon):
    sandbox = daemon.create("removed", entrypoint=["sh", "-c", "echo here; exec sleep 1000"])
    with stream(daemon, "removed", follow=1) as log:
        pieces = log.iter_bytes()
        assert plain(next(pieces)) == b"here\n"
        sandbox.remove()
        with pytest.raises(httpx.RemoteProtocolError):
            list(pieces)


def test_it_outlives_the_daemon(make_daemon):
    daemon = make_daemon()
    sandbox = daemon.create("survivor", entrypoint=["sh", "-c", GO + "echo one; go 1; echo two; go 2; echo three"])
    assert daemon.said("survivor", lambda text: text == "one\n")
    own = httpx.Client(transport=httpx.HTTPTransport(uds=str(daemon.run / "sandboxd.sock")), base_url="http://sandboxd",
                       timeout=120, trust_env=False)
    with own, own.stream("GET", "/v1/sandboxes/survivor/logs/stream", params={"follow": 1}) as log:
        pieces = log.iter_bytes()
        next(pieces)
        daemon.kill()
        with pytest.raises(httpx.HTTPError):
            list(pieces)
    sandbox.execd.post("/command", json={"command": "touch /tmp/go1"})  # while the daemon is down
    daemon.start()
    assert daemon.said("survivor", lambda text: text == "one\ntwo\n")
    with stream(daemon, "survivor", follow=1, tail=0) as log:
        sandbox.execd.post("/command", json={"command": "touch /tmp/go2"})
        assert plain(log.read()) == b"three\n"
    daemon.stop()
    daemon.start()
    assert plain(whole(daemon, "survivor", follow=1)) == b"one\ntwo\nthree\n"


def test_a_daemon_that_stops_breaks_streams_off(make_daemon):
    daemon = make_daemon()
    daemon.create("going", entrypoint=["sh", "-c", "echo here; exec sleep 1000"])
    own = httpx.Client(transport=httpx.HTTPTransport(uds=str(daemon.run / "sandboxd.sock")), base_url="http://sandboxd",
                       timeout=120, trust_env=False)
    with own, own.stream("GET", "/v1/sandboxes/going/logs/stream", params={"follow": 1}) as log:
        pieces = log.iter_bytes()
        next(pieces)
        daemon.stop()
        with pytest.raises(httpx.HTTPError):
            list(pieces)
    daemon.start()


def test_a_full_disk_does_not_stop_an_entrypoint(daemon):
    """The limit is the one on the size of files, which counts for execd's log as well."""
    sandbox = daemon.create("full-disk", ulimits={"fsize": 4096},
                            entrypoint=["sh", "-c", "seq 1 100000; echo done > /tmp/done; exec sleep 1000"])
    sandbox.output("until [ -e /tmp/done ]; do sleep 0.05; done")
    log = daemon.client.get("/v1/sandboxes/full-disk/logs").content
    assert log.startswith(b"1\n2\n3\n") and len(log) <= 4096
    assert sandbox.output("echo alive") == "alive"


POOL_THREADS = 8
AGES_AGO = "2000-01-01T00:00:00.000000000Z"


@pytest.fixture
def planted(daemon):
    """A sandbox whose log can be replaced, and a client that does not wait for ever."""
    daemon.create("planted", entrypoint=["sh", "-c", "echo here; exec sleep 1000"])
    daemon.said("planted", lambda text: text == "here\n")
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(daemon.run / "sandboxd.sock")), base_url="http://sandboxd",
                      timeout=60, trust_env=False) as client:
        yield daemon.state / "sandboxes" / "planted" / "run", client


def others_go_on(daemon, client):
    other = daemon.create("other", entrypoint=["sh", "-c", "echo other; exec sleep 1000"])
    daemon.said("other", lambda text: text == "other\n")
    assert client.get("/v1/sandboxes/other/logs").content == b"other\n"
    other.remove()


def test_a_pipe_in_place_of_a_log_blocks_no_client(daemon, planted):
    run, client = planted
    for name in ("entrypoint.log", "execd.log"):
        (run / name).unlink()
        os.mkfifo(run / name, 0o666)
    for _ in range(POOL_THREADS + 1):
        assert client.get("/v1/sandboxes/planted/logs").status_code == 500
        assert client.get("/v1/sandboxes/planted/logs/stream", params={"follow": 1}).status_code == 500
    others_go_on(daemon, client)


def test_a_sparse_log_of_terabytes_blocks_no_client(daemon, planted):
    run, client = planted
    (run / "entrypoint.log").write_text("x")  # no newline, and then nothing for long
    os.truncate(run / "entrypoint.log", 8 << 40)
    assert client.get("/v1/sandboxes/planted/logs", params={"bytes": 100}).status_code == 200
    assert client.get("/v1/sandboxes/planted/logs/stream", params={"since": AGES_AGO}).content == b""
    everything = client.get("/v1/sandboxes/planted/logs/stream").content
    assert everything.startswith(b"x") and b"bytes of the log are gone" in everything and len(everything) < 1 << 20
    with client.stream("GET", "/v1/sandboxes/planted/logs/stream",
                       params={"since": AGES_AGO, "tail": 1, "follow": 1}) as log:
        assert log.status_code == 200
    others_go_on(daemon, client)


def test_bad_queries_are_refused(daemon):
    daemon.create("asked")
    for query in ("tail=x", "tail=-1", "follow=2", "since=yesterday", "since=2025-01-01T00:00:00Z", "tail="):
        assert daemon.client.get(f"/v1/sandboxes/asked/logs/stream?{query}").status_code == 400, query
    assert daemon.client.get("/v1/sandboxes/unknown/logs/stream").status_code == 404
    assert daemon.client.get("/v1/sandboxes/asked/logs?times=2").status_code == 400
