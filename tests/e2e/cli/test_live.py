"""osb logs, port-forward, wait and top."""

import concurrent.futures
import http.client
import json
import os
import re
import signal
import socket

import httpx
import pytest
from osb_program import Osb
from stub_server import StubHandler, serving

# --- logs

def test_the_entrypoints_log(osb, server):
    script = "for i in 1 2 3; do echo line $i; done; echo done >&2; exec tail -f /dev/null"
    made = server.create(entrypoint=["sh", "-c", script])["id"]
    with osb.start("logs", "-f", made) as process:
        assert [process.stdout.readline() for _ in range(4)] == [b"line 1\n", b"line 2\n", b"line 3\n", b"done\n"]
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    assert osb.ok("logs", made) == "line 1\nline 2\nline 3\ndone\n"
    assert osb.ok("logs", "-n", "2", made) == "line 3\ndone\n"
    server.delete(made)


def test_an_entrypoint_is_followed_to_its_end(osb, server):
    script = "echo first; until [ -e /tmp/go ]; do sleep 0.05; done; echo last"
    made = server.create(entrypoint=["sh", "-c", script])["id"]
    with osb.start("logs", "-f", made) as process:
        assert process.stdout.readline() == b"first\n"
        server.run(made, "touch /tmp/go")
        assert process.stdout.readline() == b"last\n"
        assert process.stdout.read() == b""
        assert process.wait(60) == 0
    server.client.delete(f"/v1/sandboxes/{made}")


def test_a_log_has_times_and_any_bytes(osb, server):
    made = server.create(entrypoint=["sh", "-c", r"printf 'a\377\000b\nplain\n'; exec tail -f /dev/null"])["id"]
    with osb.start("logs", "-f", made) as process:
        assert [process.stdout.readline(), process.stdout.readline()] == [b"a\xff\0b\n", b"plain\n"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM
    assert osb.run("logs", made).stdout == b"a\xff\0b\nplain\n"
    timed = osb.ok("logs", "-t", "-n", "1", made)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z plain\n", timed), timed
    assert osb.ok("logs", "--since", "1h", "-n", "1", made) == "plain\n"
    server.delete(made)


@pytest.mark.parametrize("words", [["--since", "1h"], ["-t"], ["-f", "-n", "1"]])
def test_options_of_the_entrypoints_log_are_refused_for_background_commands(osb, words):
    assert "background command" in osb.refused("logs", "any", "execution", *words, code=2)


def test_a_sandbox_that_is_removed_is_told(osb, server):
    made = server.create(entrypoint=["sh", "-c", "echo here; exec tail -f /dev/null"])["id"]
    with osb.start("logs", "-f", made) as process:
        assert process.stdout.readline() == b"here\n"
        server.delete(made)
        out, said = process.communicate(timeout=60)
    assert process.returncode == 1 and out == b""
    assert b"was removed" in said, said


class WithoutStreams(StubHandler):
    """A server that knows one sandbox, which writes a line between two looks and has ended at the second."""

    looks = 0

    def do_GET(self):
        status, body = 404, {"code": "NOT_FOUND", "message": "no such route"}
        if self.path == "/v1/sandboxes/old":
            ended = WithoutStreams.looks > 1
            status, body = 200, {"id": "old", "status": {"state": "Terminated" if ended else "Running"},
                                 "entrypoint": ["sh"], "createdAt": "2025-01-02T03:04:05Z"}
        elif self.path.startswith("/v1/sandboxes/old/diagnostics/logs?"):
            WithoutStreams.looks += 1
            text = "first\n" if WithoutStreams.looks == 1 else "first\nsecond\n"
            status, body = 200, {"sandboxId": "old", "kind": "logs", "scope": "container", "delivery": "inline",
                                 "contentType": "text/plain", "truncated": False, "content": text}
        self.answer(status, body)


def test_servers_that_do_not_tell_are_looked_at(server, tmp_path):
    with serving(WithoutStreams) as other:
        osb = Osb(server, tmp_path, domain=other)
        assert osb.ok("logs", "-f", "old") == "first\nsecond\n"
        assert "no such route" in osb.refused("logs", "-f", "unknown")


TICKS = "while :; do echo tick; sleep 0.05; done"


def leave_after_a_line(process, line=b"tick\n"):
    """As head -1 does."""
    assert process.stdout.readline().startswith(line)
    process.stdout.close()
    try:
        assert process.wait(60) == 128 + signal.SIGPIPE
        assert process.stderr.read() == b""
    finally:
        process.kill()


def test_a_reader_that_leaves_ends_the_look_at_an_entrypoint(osb, server):
    made = server.create(entrypoint=["sh", "-c", TICKS])["id"]
    with osb.start("logs", "-f", made) as process:
        leave_after_a_line(process)
    server.delete(made)


def test_a_reader_that_leaves_ends_the_look_at_a_background_command(osb, sandbox):
    started = json.loads(osb.ok("command", "run", "-d", "-o", "json", sandbox, "--", "sh", "-c", TICKS))["execution_id"]
    with osb.start("logs", "-f", sandbox, started) as process:
        leave_after_a_line(process)


def test_a_reader_that_leaves_ends_the_look_at_servers_that_do_not_tell(server, tmp_path):
    class Growing(WithoutStreams):
        text = ""

        def do_GET(self):
            if self.path.startswith("/v1/sandboxes/old/diagnostics/logs?"):
                Growing.text += "tick\n"
                self.answer(200, {"sandboxId": "old", "kind": "logs", "scope": "container", "delivery": "inline",
                                  "contentType": "text/plain", "truncated": False, "content": Growing.text})
            else:
                super().do_GET()

    WithoutStreams.looks = 0
    with serving(Growing) as other, Osb(server, tmp_path, domain=other).start("logs", "-f", "old") as process:
        leave_after_a_line(process)


def test_a_reader_that_leaves_ends_the_watch_of_metrics(osb, sandbox):
    with osb.start("sandbox", "metrics", sandbox, "--watch") as process:
        leave_after_a_line(process, b"[")


def test_a_background_command_is_followed_to_its_end(osb, sandbox, server):
    script = "echo first; echo second >&2; until [ -e /tmp/go ]; do sleep 0.05; done; echo last"
    started = json.loads(osb.ok("command", "run", "-d", "-o", "json", sandbox, "--", "sh", "-c", script))["execution_id"]
    with osb.start("logs", "-f", sandbox, started) as process:
        assert process.stdout.readline() == b"first\n"
        assert process.stdout.readline() == b"second\n"  # in the background both are one stream
        server.run(sandbox, "touch /tmp/go")
        assert process.stdout.read() == b"last\n"
        assert process.wait(60) == 0
    assert osb.ok("logs", "-n", "1", sandbox, started) == "last\n"
    osb.refused("logs", sandbox, "no-such-command")
    osb.refused("logs", "no-such-sandbox")


# --- port-forward

def forwarded(process):
    """The local port that it tells."""
    return json.loads(process.stdout.readline())["local_port"]


def serve(server, sandbox, port, address="0.0.0.0"):
    """A web server inside, listening when this returns."""
    server.run(sandbox, f"mkdir -p /tmp/www{port} && cd /tmp/www{port} && echo this is {port} > index.html && "
                        f"(setsid python3 -m http.server --bind {address} {port} >/dev/null 2>&1 &) ; "
                        f"until (exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null; do sleep 0.05; done")


def answer_of(port):
    """On a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/")
    try:
        return connection.getresponse().read()
    finally:
        connection.close()


@pytest.mark.parametrize("options", [[], ["--use-server-proxy"]])
def test_ports_are_reached_from_here(osb, server, sandbox, options):
    serve(server, sandbox, 8000)
    serve(server, sandbox, 8001)
    server.run(sandbox, "head -c 5000000 /dev/urandom > /tmp/www8000/big")
    with osb.start(*options, "port-forward", sandbox, ":8000", ":8001", "-o", "json") as process:
        first, second = forwarded(process), forwarded(process)
        with httpx.Client(trust_env=False, timeout=60) as client:
            assert client.get(f"http://127.0.0.1:{first}/").text == "this is 8000\n"
            assert client.get(f"http://127.0.0.1:{second}/").text == "this is 8001\n"
            big = client.get(f"http://127.0.0.1:{first}/big").content
            assert len(big) == 5_000_000
            assert client.get(f"http://127.0.0.1:{first}/missing").status_code == 404
        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            assert set(pool.map(lambda _: answer_of(first), range(60))) == {b"this is 8000\n"}
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert process.stderr.read() == b""


def test_any_protocol_passes_where_the_address_is_reachable(osb, server, sandbox):
    server.run(sandbox, "(setsid python3 -c \"\nimport socket\nl = socket.create_server(('0.0.0.0', 9000))\n"
                        "while True:\n  c, _ = l.accept()\n  data = b''\n  while (piece := c.recv(65536)): data += piece\n"
                        "  c.sendall(data[::-1]); c.close()\n\" >/dev/null 2>&1 &); "
                        "until (exec 3<>/dev/tcp/127.0.0.1/9000) 2>/dev/null; do sleep 0.05; done")
    with osb.start("port-forward", sandbox, ":9000", "-o", "json") as process:
        port = forwarded(process)
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", port)) as connection:
                sent = os.urandom(200_000)
                connection.sendall(sent)
                connection.shutdown(socket.SHUT_WR)  # half-closed: the answer still comes
                got = b""
                while piece := connection.recv(65536):
                    got += piece
                assert got == sent[::-1]
        #  No listener there: this connection ends, the others go on.
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143


def test_a_port_without_a_listener(osb, sandbox):
    with osb.start("port-forward", sandbox, ":9999", "-o", "json") as process:
        with socket.create_connection(("127.0.0.1", forwarded(process))) as connection:
            assert connection.recv(1) == b""
        assert b"9999" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


def test_bad_mappings(osb, sandbox):
    for text in ("0", "80:", "a:80", "65536"):
        assert "port mapping" in osb.refused("port-forward", sandbox, text, code=2)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert "in use" in osb.refused("port-forward", sandbox, f"{port}:80")
    osb.refused("port-forward", "no-such-sandbox", "8080")


# --- wait

def test_wait_for_states(osb, server, sandbox):
    assert osb.json("wait", sandbox) == [{"sandbox_id": sandbox, "state": "Running"}]
    with osb.start("wait", "--for", "paused", sandbox) as process:
        server.client.post(f"/v1/sandboxes/{sandbox}/pause")
        assert process.wait(60) == 0
    with osb.start("wait", sandbox) as process:
        server.client.post(f"/v1/sandboxes/{sandbox}/resume")
        assert process.wait(60) == 0
    server.delete(sandbox)
    osb.ok("wait", "--for", "deleted", sandbox)  # it is gone already


def test_wait_for_several(osb, server):
    ids = [server.post_sandbox(wait=0).json()["id"] for _ in range(3)]
    assert {row["sandbox_id"] for row in osb.json("wait", *ids)} == set(ids)
    for each in ids:
        server.delete(each)


def test_a_state_that_never_comes(osb, server, sandbox):
    assert "still Running" in osb.refused("wait", "--for", "Paused", "--timeout", "3", sandbox)
    osb.refused("wait", "no-such-sandbox")
    osb.refused("wait", "--for", "Happy", sandbox, code=2)
    ended = server.post_sandbox(entrypoint=["true"]).json()["id"]
    server.wait_state(ended, "Terminated")
    assert "not Paused" in osb.refused("wait", "--for", "Paused", ended)
    server.delete(ended)


# --- top

def test_top_once(osb, server, sandbox):
    row, = osb.json("top")
    assert (row["id"], row["state"], row["image"]) == (sandbox, "Running", "host")
    assert row["memory_used_in_mib"] > 0 and row["cpu_used_percentage"] >= 0 and row["age_seconds"] >= 0
    assert row["remaining_seconds"] is None or row["remaining_seconds"] > 0
    table = osb.ok("top").splitlines()
    assert table[0].startswith("1 sandboxes, 1 running")
    assert sandbox in table[2]
    assert osb.json("top", "-s", "Paused") == []


def test_top_redraws_in_place(osb, server, sandbox):
    with osb.terminal("top", "--interval", "1", rows=20, columns=140) as terminal:
        terminal.expect(sandbox)
        terminal.expect(r"\x1b\[H1 sandboxes, 1 running")  # the next look, from the top of the screen
        terminal.resize(10, 50)
        terminal.type("q")
        assert terminal.wait() == 0
        assert terminal.output.endswith(b"\x1b[?25h\x1b[?1049l")
        assert terminal.modes() == terminal.before
