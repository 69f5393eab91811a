"""Sandboxes in gVisor's runsc: `[secure_runtime] type = "gvisor"` on an engine that has it."""

import json

import pytest

from conftest import SmallServer
from docker_engine import Engine


@pytest.fixture(scope="module")
def secure(tmp_path_factory):
    # Debian's gVisor takes every network namespace of a kernel newer than itself for the host's, and refuses to run its
    # own network there; the kernel's, in the same namespace, it takes.
    config = tmp_path_factory.mktemp("runsc") / "daemon.json"
    config.write_text(json.dumps({"runtimes": {"runsc": {"path": "/usr/bin/runsc",
                                                         "runtimeArgs": ["--network=host"]}}}))
    engine = Engine(1, host_image=False, arguments=["--config-file", config])
    engine.load_busybox()
    server = SmallServer(engine, settings={"secure_runtime": {"type": "gvisor", "docker_runtime": "runsc"}})
    yield server
    server.close()
    engine.close()


@pytest.fixture(autouse=True)
def none_left(secure):
    yield
    secure.remove_all()
    assert secure.daemon.inventory()["containers"] == []


def test_commands_run_in_gvisors_kernel(secure):
    id = secure.create(env={"COLOUR": "green"})["id"]
    assert secure.daemon.inspect(id)["HostConfig"]["Runtime"] == "runsc"
    assert "gVisor" in secure.run(id, "busybox dmesg")
    assert secure.run(id, "echo $COLOUR; id -u") == "green\n0"
    assert "Read-only" in secure.run(id, "echo x > /opt/opensandbox/execd")


def test_pause_and_resume(secure):
    id = secure.create()["id"]
    paused = secure.client.post(f"/v1/sandboxes/{id}/pause")
    assert paused.status_code == 202, paused.text
    assert secure.state(id) == "Paused"
    assert secure.client.post(f"/v1/sandboxes/{id}/resume").status_code == 202
    assert secure.run(id, "echo awake") == "awake"


def test_a_snapshot_holds_what_gvisor_has_written(secure):
    id = secure.create()["id"]
    secure.run(id, "echo kept > /note")
    made = secure.client.post(f"/v1/sandboxes/{id}/snapshots", json={})
    assert made.status_code == 202, made.text
    snapshot = made.json()["id"]
    while (shown := secure.client.get(f"/v1/snapshots/{snapshot}").json())["status"]["state"] == "Creating":
        pass
    assert shown["status"]["state"] == "Ready", shown
    copy = secure.create(image=..., snapshotId=snapshot)["id"]
    assert secure.run(copy, "cat /note") == "kept"
    secure.delete(copy)
    assert secure.client.delete(f"/v1/snapshots/{snapshot}").status_code == 204


def test_its_end_is_told(secure):
    id = secure.post_sandbox(entrypoint=["sh", "-c", "exit 7"]).json()["id"]
    status = secure.wait_state(id, "Failed")["status"]
    assert status["reason"] == "CONTAINER_EXITED_ERROR" and "7" in status["message"]
