"""Podman without root: sandboxes are reached by their published ports only, and what the kernel does not give to a user
is said and not pretended."""

import pathlib

import httpx
import pytest

from conftest import SmallServer
from docker_engine import RootlessPodman

# A user can be given cgroups of version 2 only, and systemd is what gives them.
LIMITED = pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists()


@pytest.fixture(scope="module")
def engine():
    running = RootlessPodman(host_image=False)
    running.load_busybox()
    yield running
    running.close()


@pytest.fixture(scope="module")
def server(engine):
    running = SmallServer(engine)
    yield running
    running.close()


def test_a_sandbox_from_its_beginning_to_its_end(server, engine):
    id = server.create(metadata={"a": "1"}, env={"WHO": "me"})["id"]
    assert server.run(id, "echo $WHO") == "me"
    assert server.run(id, "cat /proc/self/uid_map").split()[:2] == ["0", str(engine.user)]
    endpoint = server.client.get(f"/v1/sandboxes/{id}/endpoints/44772").json()
    assert endpoint["endpoint"] == engine.direct_endpoint(id, 44772)
    answer = httpx.get(f"http://{endpoint['endpoint']}/ping", headers=endpoint["headers"], timeout=180, trust_env=False)
    assert answer.status_code == 200
    server.delete(id)
    assert engine.list() == []


def test_changes_made_by_hand_are_reported(server, engine):
    id = server.create()["id"]
    engine.ask("POST", f"/containers/sandbox-{id}/kill", params={"signal": "KILL"})
    status = server.wait_state(id, "Failed")["status"]
    assert status["reason"] == "CONTAINER_EXITED_ERROR", status


def test_named_volumes(server, engine):
    volume = {"name": "v", "mountPath": "/v", "pvc": {"claimName": "kept"}}
    first = server.create(volumes=[volume])["id"]
    server.run(first, "echo kept > /v/file")
    server.delete(first)
    assert server.run(server.create(volumes=[volume])["id"], "cat /v/file") == "kept"
    server.remove_all()
    engine.ask("DELETE", "/volumes/kept")


def test_a_server_adopts_the_sandboxes_of_the_one_before(server):
    id = server.create()["id"]
    server.kill()
    server.start()
    assert server.run(id, "echo still here") == "still here"


@pytest.mark.skipif(LIMITED, reason="this machine has cgroup v2 only, where limits work")
def test_limits_that_are_not_enforced_are_refused(server):
    assert "cgroup v1" in server.log()
    for limits in ({"memory": "64Mi"}, {"cpu": "1"}):
        refused = server.post_sandbox(resourceLimits=limits)
        assert (refused.status_code, refused.json()["code"]) == (400, "SANDBOX::INVALID_PARAMETER"), refused.text
        assert next(iter(limits)) in refused.json()["message"]


@pytest.mark.skipif(LIMITED, reason="this machine has cgroup v2 only, where sandboxes can be paused")
def test_a_failed_pause_is_reported_and_the_sandbox_goes_on(server):
    id = server.create()["id"]
    refused = server.client.post(f"/v1/sandboxes/{id}/pause")
    assert (refused.status_code, refused.json()["code"]) == (500, "DOCKER::SANDBOX_PAUSE_FAILED"), refused.text
    assert "cgroup" in refused.json()["message"], refused.text
    made = server.client.post(f"/v1/sandboxes/{id}/snapshots", json={}).json()
    status = server.client.get(f"/v1/snapshots/{made['id']}", params={"wait": 150}).json()["status"]
    assert (status["state"], status["reason"]) == ("Failed", "snapshot_runtime_failed"), status
    assert server.state(id) == "Running"
    assert server.run(id, "echo goes on") == "goes on"
    assert server.client.delete(f"/v1/snapshots/{made['id']}").status_code == 204
