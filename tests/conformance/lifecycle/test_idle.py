"""Sandboxes that are paused when idle and wake when they are accessed."""

import concurrent.futures
import contextlib
import os
import pathlib
import signal
import threading
import uuid

import httpx
import pytest

from backend import backend
from registry import busybox_layer, docker_archive

SOON = {"idleTimeoutSeconds": 30, "onIdle": "pause"}
# A server in the sandbox that tells how it is: /probe answers with the content of /tmp/answer, /hang never, others echo.
SERVE = """
import http.server, pathlib, threading
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        if self.path == "/hang":
            threading.Event().wait()
        body = pathlib.Path("/tmp/answer").read_bytes() if self.path == "/probe" else b"hello"
        self.send_response(200)
        self.send_header("OpenSandbox-Wake", "forged")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with open("/tmp/posted", "ab") as out:
            out.write(body + b"\\n")
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
# In a queue of 5 connections, Python's default, the requests of many clients are reset.
http.server.ThreadingHTTPServer.request_queue_size = 128
http.server.ThreadingHTTPServer(("0.0.0.0", 8000), Handler).serve_forever()
"""


def proxied(server, id, path="/", method="GET", **options):
    return httpx.request(method, f"{server.url}/sandboxes/{id}/proxy/8000{path}", timeout=120, trust_env=False, **options)


def serving(server, **policy):
    """A sandbox with the server, and an answer of it."""
    id = server.create(lifecycle={"idlePolicy": policy}, entrypoint=["python3", "-c", SERVE])["id"]
    while (answer := proxied(server, id)).status_code == 502:
        pass
    assert answer.status_code == 200, answer.text
    return id


def pause(server, id):
    assert server.client.post(f"/v1/sandboxes/{id}/pause").status_code == 202
    server.wait_state(id, "Paused")


@contextlib.contextmanager
def stopped(daemon):
    pid = daemon.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
        daemon.process.send_signal(signal.SIGCONT)  # an engine's parent stops itself when its child is stopped


@pytest.mark.on_podman
def test_a_paused_sandbox_wakes_when_it_is_accessed(server):
    id = serving(server)
    pause(server, id)
    answer = proxied(server, id)
    assert (answer.status_code, answer.text) == (200, "hello")
    assert "OpenSandbox-Wake" not in answer.headers
    assert server.state(id) == "Running"
    pause(server, id)
    assert server.run(id, "echo awake") == "awake"  # execd's port, too


def test_without_wake_on_access_it_stays_paused(server):
    id = serving(server, wakeOnAccess=False)
    pause(server, id)
    for _ in range(2):
        answer = proxied(server, id)
        assert (answer.status_code, answer.json()["code"]) == (503, "SANDBOX::PAUSED")
        assert "OpenSandbox-Wake" not in answer.headers
    assert server.state(id) == "Paused"
    assert server.client.post(f"/v1/sandboxes/{id}/resume").status_code == 202
    server.wait_state(id, "Running")
    assert proxied(server, id).text == "hello"


def test_without_a_policy_a_paused_sandbox_is_a_conflict(server):
    id = server.create()["id"]
    pause(server, id)
    assert proxied(server, id).status_code == 409
    assert server.state(id) == "Paused"


def test_requests_of_many_clients_wake_it_once_and_each_arrives_once(server):
    id = serving(server)
    for round in range(3):
        pause(server, id)
        with concurrent.futures.ThreadPoolExecutor(40) as pool:
            posts = [pool.submit(proxied, server, id, "/", "POST", content=f"{round}-{number}") for number in range(40)]
            assert {post.result().status_code for post in posts} == {200}, server.log()[-3000:]
    arrived = server.run(id, "cat /tmp/posted").split()
    assert sorted(arrived) == sorted(f"{round}-{number}" for round in range(3) for number in range(40))


def processor_time(pid):
    """Of this one process, in hundredths of a second."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def pid_of(word):
    """Of the process with this word on its command line."""
    while True:
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if word in path.read_text(errors="replace"):
                    return int(path.parent.name)


@pytest.mark.on_docker
def test_a_paused_sandbox_uses_no_processor_time(server):
    id = server.create(lifecycle={"idlePolicy": {}})["id"]
    word = f"busy-{uuid.uuid4().hex}"
    server.run(id, f": {word}; while :; do :; done", background=True)
    busy = pid_of(word)
    begin, asked = processor_time(busy), 0
    while processor_time(busy) < begin + 10:
        server.get(id)
        asked += 1
    pause(server, id)
    before = processor_time(busy)
    for _ in range(3 * asked):
        server.get(id)
    assert processor_time(busy) == before


@pytest.mark.on_docker
def test_requests_are_forwarded_while_it_is_paused_and_resumed_all_the_time(server):
    id = serving(server)
    done = threading.Event()
    sent = []

    def send(client):
        while not done.is_set():
            body = f"{client}-{len(sent)}"
            answer = proxied(server, id, "/", "POST", content=body)
            if answer.headers.get("OpenSandbox-Wake") != "expired":
                assert answer.status_code == 200, answer.text
                sent.append(body)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        clients = [pool.submit(send, number) for number in range(4)]
        for _ in range(15):
            assert server.client.post(f"/v1/sandboxes/{id}/pause").status_code in (202, 409)
            # The pause may have frozen the requests of all clients: another one wakes them.
            while (answer := proxied(server, id)).headers.get("OpenSandbox-Wake") == "expired":
                pass
            assert answer.status_code == 200, answer.text
        done.set()
        for client in clients:
            client.result()
    arrived = server.run(id, "cat /tmp/posted").split()
    assert sorted(arrived) == sorted(sent)


@pytest.mark.on_docker
def test_a_paused_sandbox_whose_image_is_gone_wakes(server):
    archive = docker_archive("gone:1", [busybox_layer()])
    if backend() == "native":
        assert server.client.post("/v1/images/load", content=archive).status_code == 201
    else:
        server.daemon.load_archive(archive)
    id = server.create(image={"uri": "gone:1"}, entrypoint=["sleep", "100000"], lifecycle={"idlePolicy": {}})["id"]
    pause(server, id)
    if backend() == "native":
        assert server.client.delete("/v1/images", params={"uri": "gone:1", "force": "true"}).status_code == 204
    elif backend() == "docker":
        server.daemon.ask("DELETE", "/images/gone:1", params={"force": "1"})
    assert server.run(id, "echo awake") == "awake"
    assert server.state(id) == "Running"


@pytest.mark.on_docker
def test_requests_do_not_wait_for_a_paused_sandbox_that_is_gone(server):
    """Removed behind the server's back. Until the backend has said so, a request is told to come again."""
    id = serving(server)
    pause(server, id)
    server.daemon.remove(id)
    while (answer := proxied(server, id)).headers.get("OpenSandbox-Wake") == "expired":
        pass
    assert answer.status_code in (404, 409) and answer.json()["message"], answer.text
    server.wait_state(id, "Failed", "Terminated", "deleted")


def test_endpoints_lead_through_the_server(server):
    id = server.create(lifecycle={"idlePolicy": {}})["id"]
    for port in (44772, 8000):
        endpoint = server.client.get(f"/v1/sandboxes/{id}/endpoints/{port}").json()["endpoint"]
        assert endpoint.startswith(f"127.0.0.1:{server.port}/") and f"/sandboxes/{id}/proxy/{port}" in endpoint


@pytest.mark.on_docker
def test_idle_sandboxes_are_paused_and_busy_ones_are_not(server):
    """All at the same time: each would take half a minute."""
    quiet = serving(server, **SOON)
    probed = serving(server, **SOON, activeProbe={"port": 8000, "path": "/probe"})
    server.run(probed, """echo '{"active": true, "message": "I think"}' >/tmp/answer""")
    calm = serving(server, **SOON, activeProbe={"port": 8000, "path": "/probe"})
    server.run(calm, "echo '{\"active\": false}' >/tmp/answer")
    hanging = serving(server, **SOON, activeProbe={"port": 8000, "path": "/hang", "timeoutSeconds": 1})
    missing = serving(server, **SOON, activeProbe={"port": 8001, "path": "/"})
    working = server.create(lifecycle={"idlePolicy": SOON})["id"]
    server.run(working, "echo $$ >/tmp/pid; exec sleep 1000", background=True)
    streaming = server.create(lifecycle={"idlePolicy": SOON})["id"]
    with contextlib.ExitStack() as stack:
        stream = stack.enter_context(httpx.stream(
            "POST", f"{server.url}/sandboxes/{streaming}/proxy/44772/command", headers=server.token(streaming), timeout=600,
            json={"command": "echo begun; exec sleep 1000"}, trust_env=False))
        next(line for line in stream.iter_lines() if "begun" in line)
        for id in (quiet, calm, missing):
            server.wait_state(id, "Paused")
        # Made before, so that they were due before.
        for id in (probed, hanging, working, streaming):
            assert server.state(id) == "Running"
        assert proxied(server, quiet).text == "hello"
        assert proxied(server, calm).text == "hello"
    for id in (quiet, calm):
        assert server.state(id) == "Running"
    server.run(working, "kill $(cat /tmp/pid)")
    server.wait_state(working, "Paused")


def test_the_policy_survives_the_server(make_server):
    server = make_server()
    paused, idle = serving(server, **SOON), serving(server, **SOON)
    pause(server, paused)
    server.kill()
    server.start()
    server.wait_state(paused, "Paused")
    assert proxied(server, paused).text == "hello"
    server.wait_state(idle, "Paused")
    assert proxied(server, idle).text == "hello"


@pytest.mark.on_docker
def test_a_wake_that_takes_too_long_is_told_and_nothing_was_forwarded(make_server):
    server = make_server()
    id = serving(server)
    pause(server, id)
    with stopped(server.daemon):
        answer = proxied(server, id, "/", "POST", content="too soon")
        assert (answer.status_code, answer.headers["OpenSandbox-Wake"], answer.headers["Retry-After"]) == (503, "expired", "1")
        assert answer.json()["code"] == "SANDBOX::WAKE_EXPIRED"
    while (answer := proxied(server, id, "/", "POST", content="in time")).headers.get("OpenSandbox-Wake") == "expired":
        pass
    assert answer.status_code == 200
    assert server.run(id, "cat /tmp/posted") == "in time"
