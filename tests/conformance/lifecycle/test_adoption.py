"""A server that has lost its records finds its sandboxes again, and touches nothing else."""

import contextlib
import socket
import sqlite3
import uuid

import pytest

from backend import backend


def forget_all(server):
    """Kills the server and takes its records away."""
    server.kill()
    for path in server.directory.glob("server.db*"):
        path.unlink()


@pytest.mark.on_podman
def test_sandboxes_are_taken_over(make_server):
    server = make_server()
    made = server.create(timeout=3600, metadata={"team": "a"}, env={"SECRET": "s"},
                         extensions={"opensandbox.extensions.team": "b"})
    paused = server.create(entrypoint=["sleep", "infinity"])["id"]
    assert server.client.post(f"/v1/sandboxes/{paused}/pause").status_code == 202
    before, token = server.get(made["id"]).json(), server.token(made["id"])
    stranger = f"stranger-{uuid.uuid4().hex[:8]}"
    server.daemon.create(stranger, labels={"opensandbox.io/manual-cleanup": "true"})
    with server.daemon.until_removed(stranger):
        forget_all(server)
        with server.saying("took over", times=2):
            server.start()
        after = server.get(made["id"]).json()
        for field in ("id", "entrypoint", "metadata", "extensions", "expiresAt"):
            assert after[field] == before[field], field
        # Podman keeps the full name only.
        assert after["image"] == ({"uri": "localhost/host:latest"} if backend() == "podman" else before["image"])
        assert after["status"]["state"] == "Running"
        assert server.token(made["id"]) == token
        assert server.run(made["id"], "echo $SECRET") == "s"
        assert server.state(paused) == "Paused"
        assert "expiresAt" not in server.get(paused).json()
        assert server.get(stranger).status_code == 404
        # And they are as durable as any other.
        server.kill()
        server.start()
        assert server.get(made["id"]).json()["expiresAt"] == before["expiresAt"]
        server.remove_all()
        assert [each["id"] for each in server.daemon.list()] == [stranger]
        server.daemon.remove(stranger)


def test_one_lost_record(make_server):
    server = make_server()
    lost, kept = server.create(timeout=600)["id"], server.create()["id"]
    server.stop()
    with contextlib.closing(sqlite3.connect(server.directory / "server.db")) as database:
        assert database.execute("DELETE FROM sandboxes WHERE id = ?", [lost]).rowcount == 1
        database.commit()
    with server.saying("took over"):
        server.start()
    assert (server.state(lost), server.state(kept)) == ("Running", "Running")
    server.remove_all()


@pytest.mark.on_podman
def test_a_sandbox_past_its_deadline_is_removed(make_server):
    server = make_server()
    server.stop()
    late, mute = str(uuid.uuid4()), str(uuid.uuid4())
    server.daemon.create(late, labels={"opensandbox.io/id": late,
                                       "opensandbox.io/expires-at": "2024-01-01T00:00:00+00:00"})
    server.daemon.create(mute, labels={"opensandbox.io/id": mute})
    with server.daemon.until_removed(late), server.daemon.until_removed(mute):
        server.start()
    assert server.client.get("/v1/sandboxes").json()["items"] == []


@pytest.mark.on_podman
def test_a_create_that_fails_without_a_waiter_says_why(make_server):
    server = make_server()
    with socket.create_server(("127.0.0.1", 0)) as registry:
        uri = f"127.0.0.1:{registry.getsockname()[1]}/image:1"
        id = server.post_sandbox(wait=0, image={"uri": uri}).json()["id"]
        asking, _ = registry.accept()  # the pull has begun, and gets no answer
        server.kill()
        server.start()
        assert server.state(id) == "Pending"
        # Sandboxd went on with it, an engine is asked again.
        with server.daemon.until_removed(id) if backend() == "native" else contextlib.nullcontext():
            asking.close()
            registry.close()
    status = server.wait_state(id, "Failed")["status"]
    assert status["reason"] == server.code("SANDBOX_IMAGE_PULL_FAILED")
    assert status["message"]
    server.remove_all()
