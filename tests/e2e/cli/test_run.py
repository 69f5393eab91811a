"""osb run: a sandbox for one command."""

import datetime
import http.server
import signal
import socket
import threading

import pytest
from cutting_proxy import CuttingProxy
from osb_program import Osb
from stub_server import StubHandler


def test_output_is_exact_and_the_exit_code_is_the_commands(osb):
    done = osb.run("run", "host", "--", "sh", "-c", r"printf 'a\r\nb\000\377'; printf 'e\n\nf' >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"a\r\nb\x00\xff", b"e\n\nf")


def test_much_output_is_complete(osb):
    done = osb.run("run", "host", "--", "seq", "1", "300000")
    assert done.returncode == 0
    assert done.stdout == b"".join(b"%d\n" % n for n in range(1, 300001))


def test_words_arrive_as_they_are(osb):
    words = ["a b", "it's", "$HOME", "", "*", "-x", "ä\n"]
    done = osb.run("run", "host", "--", "printf", "%s|", *words)
    assert done.stdout.decode() == "".join(f"{word}|" for word in words)


def test_environment_directory_and_metadata(osb, server):
    done = osb.run("run", "--keep", "-e", "GREETING=a = b", "-m", "purpose=test", "-w", "/tmp", "--resource", "cpu=500m",
                   "host", "--", "sh", "-c", "echo $GREETING; pwd")
    assert done.stdout == b"a = b\n/tmp\n"
    kept, = server.client.get("/v1/sandboxes").json()["items"]
    assert kept["id"].encode() in done.stderr
    assert kept["metadata"] == {"purpose": "test"}
    server.delete(kept["id"])


def test_standard_input_is_empty(osb):
    assert osb.ok("run", "host", "--", "cat") == ""


@pytest.mark.parametrize("command, code", [(["sh", "-c", "kill -9 $$"], 137), (["no-such-program"], 127)])
def test_how_commands_end(osb, command, code):
    assert osb.run("run", "host", "--", *command).returncode == code


@pytest.mark.parametrize("sent, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_signals_end_the_command_and_remove_the_sandbox(osb, sent, code):
    with osb.start("run", "host", "--", "sh", "-c", "echo ready; sleep 1000") as process:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(sent)
        assert process.wait(60) == code


def test_a_command_that_ignores_ctrl_c_does_not_keep_us_after_the_second(osb):
    script = "trap 'echo no' INT; echo ready; while :; do sleep 0.1; done"
    with osb.start("run", "host", "--", "bash", "-c", script) as process:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == b"no\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130


def test_a_reader_that_leaves_ends_the_command(osb):
    with osb.start("run", "host", "--", "yes") as process:
        assert process.stdout.readline() == b"y\n"
        process.stdout.close()
        assert process.wait(60) == 141


def test_a_sandbox_whose_osb_was_killed_ends_by_itself(osb, server):
    with osb.start("run", "host", "--", "sh", "-c", "echo ready; sleep 1000") as process:
        assert process.stdout.readline() == b"ready\n"
        process.kill()
    left, = server.client.get("/v1/sandboxes").json()["items"]
    ends = datetime.datetime.fromisoformat(left["expiresAt"].replace("Z", "+00:00"))
    assert ends - datetime.datetime.now(datetime.timezone.utc) <= datetime.timedelta(minutes=10)
    server.delete(left["id"])


def test_a_timeout_is_the_sandboxes_and_as_the_contract_has_it(osb):
    assert "timeout" in osb.refused("run", "--timeout", "1", "host", "--", "true")  # at least a minute
    assert osb.run("run", "--timeout", "60", "host", "--", "true").returncode == 0


def test_ctrl_c_while_the_sandbox_is_made(osb):
    """The registry accepts and says nothing: the image never comes."""
    with socket.create_server(("127.0.0.1", 0)) as registry:
        port = registry.getsockname()[1]
        with osb.start("run", f"127.0.0.1:{port}/nothing:latest", "--", "true") as process:
            registry.settimeout(60)
            connection, _ = registry.accept()
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
            assert b"Interrupted" in process.stderr.read()
            connection.close()


class NeverReady:
    """A server whose sandbox never gets ready and is not removed either: `on_delete` says what becomes of the request."""

    def __init__(self, on_delete):
        stub = self
        self.asked, self.deleting, self.end = threading.Event(), threading.Event(), threading.Event()

        class Handler(StubHandler):
            def handle_any(self):
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if self.command == "DELETE":
                    stub.deleting.set()
                    return on_delete(stub, self)
                info = {"id": "box", "status": {"state": "Pending"}, "entrypoint": ["sh"],
                        "createdAt": "2025-01-02T03:04:05Z"}
                if "/endpoints/" in self.path:
                    self.answer(200, {"endpoint": f"{stub.domain}/execd"})
                elif self.path.startswith("/execd"):
                    stub.asked.set()
                    self.answer(502, {"code": "NOT_YET", "message": "not yet"})
                else:
                    self.answer(202 if self.command == "POST" else 200, info)

            do_GET = do_POST = do_DELETE = handle_any

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.domain = f"127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.end.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def expect_left(process):
    try:
        assert process.wait(60) == 130
        said = process.stderr.read().decode()
        assert "Interrupted" in said and "osb sandbox kill box" in said, said
    finally:
        process.kill()


def test_ctrl_c_ends_also_where_the_sandbox_cannot_be_removed(server, tmp_path):
    refused = {"code": "BROKEN", "message": "the backend is gone"}
    with NeverReady(lambda _, request: request.answer(503, refused)) as stub:
        with Osb(server, tmp_path, domain=stub.domain).start("run", "x", "--", "true") as process:
            assert stub.asked.wait(60)
            process.send_signal(signal.SIGINT)
            expect_left(process)


def test_a_second_ctrl_c_ends_the_wait_for_a_server_that_does_not_answer(server, tmp_path):
    with NeverReady(lambda stub, _: stub.end.wait()) as stub:
        osb = Osb(server, tmp_path, domain=stub.domain)
        with osb.start("--request-timeout", "3600", "run", "x", "--", "true") as process:
            assert stub.asked.wait(60)
            process.send_signal(signal.SIGINT)
            assert stub.deleting.wait(60)
            process.send_signal(signal.SIGINT)
            expect_left(process)


def test_a_lost_connection_loses_no_output(server, tmp_path):
    script = "for i in $(seq 3000); do echo line $i; done; until [ -e /tmp/go ]; do sleep 0.05; done; echo end; exit 5"
    with CuttingProxy(server.port) as proxy:
        osb = Osb(server, tmp_path, domain=proxy.domain)
        with osb.start("--use-server-proxy", "run", "-m", "which=this", "host", "--", "sh", "-c", script) as process:
            assert process.stdout.readline() == b"line 1\n"
            proxy.cut()
            assert [process.stdout.readline() for _ in range(2999)] == [b"line %d\n" % n for n in range(2, 3001)]
            made, = server.client.get("/v1/sandboxes").json()["items"]
            proxy.cut()
            server.run(made["id"], "touch /tmp/go")
            assert process.stdout.read() == b"end\n"
            assert process.wait(60) in (5, 1)  # 1: it ended before we were back, and its code is not known


def test_a_command_that_ends_unseen_is_not_run_again(server, tmp_path):
    script = "echo x >> /tmp/runs; echo ready; until [ -e /tmp/go ]; do sleep 0.05; done; echo bye; touch /tmp/finished"
    made = server.create()["id"]
    with CuttingProxy(server.port) as proxy:
        osb = Osb(server, tmp_path, domain=proxy.domain)
        with osb.start("--use-server-proxy", "command", "run", "--exact", made, "--", "sh", "-c", script) as process:
            assert process.stdout.readline() == b"ready\n"
            proxy.refuse = True
            proxy.cut()
            server.run(made, "touch /tmp/go; until [ -e /tmp/finished ]; do sleep 0.05; done")
            proxy.refuse = False
            assert process.stdout.read() == b"bye\n"
            assert process.wait(60) in (0, 1)
    assert server.run(made, "cat /tmp/runs") == "x"
    server.delete(made)


def test_a_command_that_cannot_run_is_explained_in_a_sentence(osb):
    assert "no command" in osb.refused("run", "host", code=2)
    assert "terminal" in osb.refused("run", "-it", "host")
    assert "ctrl-x-y" in osb.refused("run", "--detach-keys", "ctrl-x-y", "host", "--", "true", code=2)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    osb.refused("run", f"127.0.0.1:{port}/nothing:latest", "--", "true")
    osb.env["OPEN_SANDBOX_DOMAIN"] = f"127.0.0.1:{port}"
    assert "osb doctor" in osb.refused("run", "host", "--", "true")
