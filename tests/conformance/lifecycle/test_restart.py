"""After kill -9 of the server, all its promises hold again."""

import os
import signal
import socket

import pytest

from backend import backend


@pytest.mark.on_podman
def test_records_survive_a_kill(make_server):
    server = make_server()
    id = server.create(timeout=3600, metadata={"a": "1"})["id"]
    paused = server.create()["id"]
    server.client.post(f"/v1/sandboxes/{paused}/pause")
    server.client.patch(f"/v1/sandboxes/{id}/metadata", json={"b": "2"})
    before = server.get(id).json()
    server.kill()
    server.start()
    assert server.get(id).json() == before
    assert server.state(paused) == "Paused"
    assert server.run(id, "echo still here") == "still here"
    server.remove_all()
    assert server.daemon.list() == []


@pytest.mark.on_podman
def test_a_sandbox_that_ended_meanwhile_is_reported(make_server):
    server = make_server()
    gone = server.create()["id"]
    due = server.create(timeout=60)["id"]
    server.client.get(f"/v1/sandboxes/{due}")
    server.kill()
    server.daemon.remove(gone)
    server.start()
    status = server.wait_state(gone, "Terminated")["status"]
    assert status["reason"] == "SANDBOX_LOST"
    assert server.state(due) == "Running"
    server.remove_all()


def accept_without_carrying_out(server):
    """A create that was accepted just before the backend died."""
    os.kill(server.daemon.pid, signal.SIGSTOP)
    made = server.post_sandbox(wait=0)
    assert made.status_code == 202, made.text
    assert made.json()["status"]["state"] == "Pending"
    server.daemon.kill()
    return made.json()["id"]


def until_not_ready(server):
    """The server hears of its loss by the stream of events that breaks."""
    while (response := server.client.get("/health/ready")).status_code == 200:
        pass
    return response


@pytest.mark.on_docker
def test_a_create_is_refused_while_the_backend_is_away(make_server):
    server = make_server()
    id = server.create()["id"]
    server.daemon.stop()
    name = "sandboxd" if backend() == "native" else "the container engine"
    not_ready = until_not_ready(server)
    assert (not_ready.status_code, not_ready.json()["code"]) == (503, "GENERAL::NOT_READY")
    assert not_ready.json()["message"] == f"{name} does not answer"
    for wait in (None, 0, 60):
        refused = server.post_sandbox(wait=wait)
        assert (refused.status_code, refused.json()["code"]) == (503, server.code("UNAVAILABLE")), refused.text
        assert f"{name} does not answer" in refused.json()["message"], refused.text
        assert int(refused.headers["Retry-After"]) >= 1
    assert [item["id"] for item in server.client.get("/v1/sandboxes").json()["items"]] == [id]
    server.daemon.start()
    server.delete(server.create()["id"])  # the create itself finds out
    server.remove_all()
    assert server.daemon.list() == []


@pytest.mark.on_podman
def test_a_create_accepted_before_the_backend_died_is_carried_out_by_the_next(make_server):
    server = make_server()
    id = accept_without_carrying_out(server)
    until_not_ready(server)
    assert server.state(id) == "Pending"
    server.daemon.start()
    server.wait_state(id, "Running")
    assert server.run(id, "echo made") == "made"
    server.remove_all()


@pytest.mark.on_podman
def test_an_accepted_create_is_carried_out_after_a_kill(make_server):
    server = make_server()
    id = accept_without_carrying_out(server)
    endpoint = server.client.get(f"/v1/sandboxes/{id}/endpoints/44772").json()
    assert endpoint["endpoint"] == f"127.0.0.1:{server.port}/v1/sandboxes/{id}/proxy/44772"
    server.kill()
    server.daemon.start()
    server.start()
    server.wait_state(id, "Running")
    # The token that was given out while it was Pending is the one.
    assert server.token(id) == endpoint["headers"]
    assert server.run(id, "echo made") == "made"
    server.remove_all()


@pytest.mark.on_docker
def test_a_server_without_a_backend_says_so_and_is_ready_when_it_comes(make_server):
    server = make_server()
    server.stop()
    server.daemon.stop()
    if backend() != "native":  # an engine that was never there is a mistake in the configuration
        with pytest.raises(RuntimeError):
            server.start()
        server.daemon.start()
        server.start()
        return
    server.start(until="backend does not answer")
    assert "is ready" not in server.log().split("is listening")[-1]
    assert server.post_sandbox().status_code == 503
    with server.saying("opensandbox-server is ready"):
        server.daemon.start()
    server.delete(server.create()["id"])


@pytest.mark.on_podman
def test_a_delete_is_finished_after_a_kill(make_server):
    server = make_server()
    id = server.create()["id"]
    server.daemon.stop()
    refused = server.client.delete(f"/v1/sandboxes/{id}")
    assert (refused.status_code, refused.json()["code"]) == (500, server.code("SANDBOX_DELETE_FAILED"))
    assert server.get(id).status_code == 404
    server.kill()
    server.daemon.start()
    assert [each["id"] for each in server.daemon.list()] == [id]
    with server.daemon.until_removed(id):
        server.start()
    assert server.get(id).status_code == 404


@pytest.mark.on_podman
def test_the_daemon_may_be_restarted_under_the_server(make_server):
    server = make_server()
    id = server.create()["id"]
    server.daemon.stop()
    assert server.state(id) == "Running"
    server.daemon.start()
    assert server.run(id, "echo again") == "again"
    other = server.create()["id"]
    assert server.run(other, "echo new") == "new"
    server.remove_all()


def test_it_ends_politely(make_server):
    server = make_server()
    id = server.create()["id"]
    server.stop()
    assert [each["id"] for each in server.daemon.list()] == [id]
    server.start()
    server.remove_all()


@pytest.mark.skipif(backend() != "native", reason="stops sandboxd")
def test_it_ends_although_the_backend_hangs(make_server):
    server = make_server()
    id = server.create()["id"]
    os.kill(server.daemon.pid, signal.SIGSTOP)
    try:
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as peer:
            peer.sendall(f"DELETE /v1/sandboxes/{id} HTTP/1.1\r\nHost: x\r\n"
                         f"OPEN-SANDBOX-API-KEY: {server.key}\r\n\r\n".encode())
            while server.get(id).status_code != 404:  # promised, not yet done
                pass
            server.stop()
            assert peer.recv(1) == b""
    finally:
        os.kill(server.daemon.pid, signal.SIGCONT)
