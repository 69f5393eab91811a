"""A sandbox from its first to its last moment, through the lifecycle API."""

import concurrent.futures
import datetime
import json
import socket

import httpx
import pytest


def in_seconds(seconds):
    return (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)).isoformat()


def moment(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


@pytest.mark.on_podman
def test_create_run_delete(server):
    response = server.post_sandbox(metadata={"team": "a"}, timeout=600)
    assert response.status_code == 202
    made = response.json()
    assert made["status"]["state"] == "Running"
    assert made["metadata"] == {"team": "a"}
    assert made["entrypoint"] == ["tail", "-f", "/dev/null"]
    assert "image" not in made
    shown = server.get(made["id"]).json()
    assert shown["image"] == {"uri": "host"}
    assert shown["expiresAt"] == made["expiresAt"]
    assert server.run(made["id"], "echo $((6*7)); id -u") == "42\n0"
    server.delete(made["id"])
    assert server.get(made["id"]).status_code == 404
    assert server.get(made["id"]).json()["code"] == server.code("SANDBOX_NOT_FOUND")
    assert server.client.delete(f"/v1/sandboxes/{made['id']}").status_code == 404
    assert server.daemon.list() == []


@pytest.mark.on_docker
def test_the_answer_can_come_before_the_sandbox(server):
    made = server.post_sandbox(wait=None, headers={"Prefer": "respond-async"})
    assert (made.status_code, made.headers["Preference-Applied"]) == (202, "respond-async")
    made = made.json()
    assert made["status"]["state"] == "Pending"
    # Clients ask for both endpoints at once, in any state, and use the answers.
    endpoints = []
    for port in (44772, 18080):
        response = server.client.get(f"/v1/sandboxes/{made['id']}/endpoints/{port}")
        assert response.status_code == 200, response.text
        endpoints.append(response.json())
    assert endpoints[1]["endpoint"].endswith("18080")
    assert server.wait_state(made["id"], "Running")["id"] == made["id"]
    answer = httpx.get(f"http://{endpoints[0]['endpoint']}/ping", headers=endpoints[0]["headers"], trust_env=False)
    assert answer.status_code == 200


def test_waiting_is_granted_and_said(server):
    response = server.post_sandbox(wait=None, headers={"Prefer": "wait=20"})
    assert response.headers["Preference-Applied"] == "wait=20"
    assert response.json()["status"]["state"] == "Running"


def test_the_answer_waits_a_moment_by_itself(server):
    """A fresh machine takes longer than a second for the first create, and for any while others work."""
    server.delete(server.create()["id"])
    states = set()
    while "Running" not in states:
        made = server.post_sandbox(wait=None)
        assert made.status_code == 202 and "Preference-Applied" not in made.headers
        states.add(made.json()["status"]["state"])
        server.delete(made.json()["id"])
    assert states <= {"Running", "Pending"}


NO_IMAGE = {"image": {"uri": "127.0.0.1:1/no/such:image"}}


@pytest.mark.on_podman
def test_an_image_that_cannot_be_had_is_the_answer_of_the_create(server):
    key = {"Idempotency-Key": "no-image"}
    refused = server.post_sandbox(**NO_IMAGE, headers=key)
    assert (refused.status_code, refused.json()["code"]) == (500, server.code("SANDBOX_IMAGE_PULL_FAILED"))
    assert "no/such" in refused.json()["message"]
    assert server.client.get("/v1/sandboxes").json()["items"] == []
    # The key was not used up, not even for another request.
    made = server.post_sandbox(headers=key)
    assert (made.status_code, made.json()["status"]["state"]) == (202, "Running"), made.text


@pytest.mark.on_docker
def test_an_image_that_cannot_be_had_later_is_a_failed_sandbox_without_endpoints(server):
    id = server.create_failing(**NO_IMAGE)
    status = server.get(id).json()["status"]
    assert status["reason"] == server.code("SANDBOX_IMAGE_PULL_FAILED")
    assert "no/such" in status["message"]
    assert server.client.get(f"/sandboxes/{id}/proxy/44772/ping").status_code == 409
    for proxy in ("true", "false"):
        refused = server.client.get(f"/v1/sandboxes/{id}/endpoints/44772", params={"use_server_proxy": proxy})
        assert (refused.status_code, refused.json()["code"]) == (500, server.code("SANDBOX_IMAGE_PULL_FAILED"))
        assert "is Failed: " in refused.json()["message"] and "no/such" in refused.json()["message"]
    server.delete(id)


def test_repeated_creates_that_fail_together_get_one_answer(server):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: server.post_sandbox(**NO_IMAGE, headers={"Idempotency-Key": "together"}),
                                range(8)))
    assert {(each.status_code, each.json()["code"]) for each in answers} == {
        (500, server.code("SANDBOX_IMAGE_PULL_FAILED"))}
    assert server.client.get("/v1/sandboxes").json()["items"] == []
    assert server.daemon.list() == []


def test_a_client_that_leaves_cancels_nothing(server):
    body = json.dumps({"image": {"uri": "host"}, "entrypoint": ["tail", "-f", "/dev/null"], "resourceLimits": {},
                       "metadata": {"client": "gone"}})
    with socket.create_connection(("127.0.0.1", server.port)) as peer:
        peer.sendall(f"POST /v1/sandboxes?wait=60 HTTP/1.1\r\nHost: x\r\nOPEN-SANDBOX-API-KEY: {server.key}\r\n"
                     f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
        while not (items := server.client.get("/v1/sandboxes", params={"metadata": "client=gone"}).json()["items"]):
            pass  # accepted
    server.wait_state(items[0]["id"], "Running")
    assert server.run(items[0]["id"], "echo here") == "here"


@pytest.mark.on_podman
def test_an_entrypoint_that_ends_is_told_with_its_code(server):
    well = server.post_sandbox(entrypoint=["true"]).json()["id"]
    badly = server.post_sandbox(entrypoint=["sh", "-c", "exit 3"]).json()["id"]
    status = server.wait_state(well, "Terminated")["status"]
    assert status["reason"] == "CONTAINER_EXITED"
    status = server.wait_state(badly, "Failed")["status"]
    assert status["reason"] == "CONTAINER_EXITED_ERROR" and "3" in status["message"]
    for id, state in ((well, "Terminated"), (badly, "Failed")):
        refused = server.client.get(f"/v1/sandboxes/{id}/endpoints/44772")
        assert (refused.status_code, refused.json()["code"]) == (409, server.code("SANDBOX_NOT_RUNNING"))
        assert f"is {state}: " in refused.json()["message"], refused.text


def test_an_entrypoint_of_one_string_is_split_as_a_shell_splits_it(server):
    line = """sh -c 'test "$0|$1" = "a  b|c d" && exit 9' "a  b" c\\ d"""
    made = server.post_sandbox(entrypoint=[line]).json()
    assert made["entrypoint"] == [line]
    status = server.wait_state(made["id"], "Failed", "Terminated")["status"]
    assert status["reason"] == "CONTAINER_EXITED_ERROR" and "9" in status["message"], status
    open_quote = server.post_sandbox(entrypoint=["sh -c 'x"])
    assert open_quote.status_code == 400 and "/entrypoint" in open_quote.json()["message"], open_quote.text


def test_the_host_name_tells_which_sandbox_one_is_in(server):
    if server.daemon.code_prefix != "NATIVE":
        return  # containers have the names that the engine gives them
    named = server.create(metadata={"name": "web-1"})["id"]
    assert server.run(named, "hostname; getent hosts web-1 | wc -l") == "web-1\n1"
    other = server.create(metadata={"name": "no_host_name"})["id"]
    assert server.run(other, "hostname") == f"sandbox-{other[:8]}"


def test_lists_are_filtered_and_paged(server):
    ids = [server.create(metadata={"group": group, "n": str(n)})["id"] for n, group in enumerate("aab")]
    response = server.client.get("/v1/sandboxes", params={"metadata": "group=a", "pageSize": 1})
    page = response.json()
    assert [item["id"] for item in page["items"]] == [ids[1]]
    assert page["pagination"] == {"page": 1, "pageSize": 1, "totalItems": 2, "totalPages": 2, "hasNextPage": True}
    assert server.client.get("/sandboxes", params={"state": "paused"}).json()["items"] == []
    assert len(server.client.get("/sandboxes", params={"state": ["Paused", "RUNNING"]}).json()["items"]) == 3


def test_metadata_is_patched(server):
    id = server.create(metadata={"keep": "1", "drop": "2"})["id"]
    patch = server.client.patch(f"/v1/sandboxes/{id}/metadata", json={"drop": None, "new": "3"})
    assert patch.status_code == 200
    assert patch.json()["metadata"] == {"keep": "1", "new": "3"}
    found = server.client.get("/v1/sandboxes", params={"metadata": "new=3"}).json()["items"]
    assert [item["id"] for item in found] == [id]
    reserved = server.client.patch(f"/v1/sandboxes/{id}/metadata", json={"opensandbox.io/x": None})
    assert (reserved.status_code, reserved.json()["code"]) == (400, "INVALID_METADATA_LABEL")


def test_renewal_moves_the_deadline(server):
    id = server.create(timeout=60)["id"]
    wanted = in_seconds(3600)
    response = server.client.post(f"/v1/sandboxes/{id}/renew-expiration", json={"expiresAt": wanted})
    assert response.status_code == 200
    assert moment(response.json()["expiresAt"]) == moment(wanted)
    assert server.get(id).json()["expiresAt"] == response.json()["expiresAt"]
    past = server.client.post(f"/v1/sandboxes/{id}/renew-expiration", json={"expiresAt": in_seconds(-1)})
    assert (past.status_code, past.json()["code"]) == (400, server.code("INVALID_EXPIRATION"))
    forever = server.create(timeout=None)["id"]
    assert "expiresAt" not in server.get(forever).json()
    manual = server.client.post(f"/v1/sandboxes/{forever}/renew-expiration", json={"expiresAt": in_seconds(60)})
    assert (manual.status_code, manual.json()["code"]) == (409, server.code("INVALID_EXPIRATION"))


def seconds_late(server):
    """How long after its deadline a sandbox is gone."""
    id = server.create(timeout=60)["id"]
    response = server.client.post(f"/v1/sandboxes/{id}/renew-expiration", json={"expiresAt": in_seconds(1.5)})
    server.wait_state(id, "deleted")
    assert server.get(id).status_code == 404
    late = (datetime.datetime.now(datetime.timezone.utc) - moment(response.json()["expiresAt"])).total_seconds()
    assert late >= 0, late
    return late


def test_a_deadline_ends_the_sandbox_on_time(server):
    """A busy machine may be late with anything, but not each time."""
    assert any(seconds_late(server) < 1 for _ in range(20))


@pytest.mark.on_podman
def test_pause_and_resume(server):
    id = server.create()["id"]
    conflict = server.client.post(f"/v1/sandboxes/{id}/resume")
    assert (conflict.status_code, conflict.json()["code"]) == (409, server.code("SANDBOX_NOT_PAUSED"))
    paused = server.client.post(f"/v1/sandboxes/{id}/pause")
    assert (paused.status_code, paused.content, paused.headers["content-length"]) == (202, b"", "0")
    assert server.state(id) == "Paused"
    again = server.client.post(f"/v1/sandboxes/{id}/pause")
    assert (again.status_code, again.json()["code"]) == (409, server.code("SANDBOX_NOT_RUNNING"))
    assert server.client.get(f"/sandboxes/{id}/proxy/44772/ping").status_code == 409
    assert server.client.post(f"/v1/sandboxes/{id}/resume").status_code == 202
    assert server.state(id) == "Running"
    assert server.run(id, "echo awake") == "awake"


def test_a_repeated_create_with_a_key_gives_the_same_sandbox(server):
    key = {"Idempotency-Key": "test-1"}
    first = server.post_sandbox(headers=key).json()
    second = server.post_sandbox(headers=key)
    assert second.status_code == 202 and second.json()["id"] == first["id"]
    other = server.post_sandbox(headers=key, metadata={"a": "b"})
    assert (other.status_code, other.json()["code"]) == (409, "SANDBOX::IDEMPOTENCY_CONFLICT")
    assert len(server.daemon.list()) == 1


@pytest.mark.on_podman
def test_snapshots_restore_files(server):
    id = server.create()["id"]
    server.run(id, "echo kept > /root/note")
    made = server.client.post(f"/v1/sandboxes/{id}/snapshots", json={"name": "first"})
    assert made.status_code == 202, made.text
    snapshot = made.json()["id"]
    assert made.headers["location"] == f"/v1/snapshots/{snapshot}"
    assert made.json()["status"]["state"] == "Creating"
    settled = server.client.get(f"/v1/snapshots/{snapshot}", params={"wait": 60}).json()
    assert settled["status"]["state"] == "Ready"
    listed = server.client.get("/v1/snapshots", params={"sandboxId": id}).json()
    assert [item["id"] for item in listed["items"]] == [snapshot]
    restored = server.create(image=..., snapshotId=snapshot)["id"]
    assert server.get(restored).json()["snapshotId"] == snapshot
    assert server.run(restored, "cat /root/note") == "kept"
    used = server.client.delete(f"/v1/snapshots/{snapshot}")
    assert (used.status_code, used.json()["code"]) == (409, "SNAPSHOT::DELETE_CONFLICT")
    server.delete(restored)
    assert server.client.delete(f"/v1/snapshots/{snapshot}").status_code == 204
    assert server.client.get(f"/v1/snapshots/{snapshot}").json()["code"] == "SNAPSHOT::NOT_FOUND"


@pytest.mark.on_podman
def test_a_paused_sandbox_gives_a_snapshot_and_stays_paused(server):
    id = server.create()["id"]
    server.run(id, "echo kept > /root/note; sync")
    assert server.client.post(f"/v1/sandboxes/{id}/pause").status_code == 202
    server.wait_state(id, "Paused")
    made = server.client.post(f"/v1/sandboxes/{id}/snapshots", json={"name": "of-a-paused-one"})
    assert made.status_code == 202, made.text
    snapshot = server.client.get(f"/v1/snapshots/{made.json()['id']}", params={"wait": 60}).json()
    assert snapshot["status"]["state"] == "Ready", snapshot
    assert [item["id"] for item in server.client.get("/v1/snapshots", params={"name": "of-a-paused-one"}).json()["items"]] == [
        snapshot["id"]]
    assert server.state(id) == "Paused"
    restored = server.create(image=..., snapshotId=snapshot["id"])["id"]
    assert server.run(restored, "cat /root/note") == "kept"
    for each in (restored, id):
        server.delete(each)
    assert server.client.delete(f"/v1/snapshots/{snapshot['id']}").status_code == 204


@pytest.mark.on_docker
def test_a_sandbox_knows_its_id(server):
    """A request cannot set another one."""
    id = server.create(env={"OPENSANDBOX_ID": "another"})["id"]
    assert server.run(id, "echo $OPENSANDBOX_ID") == id


def test_extensions_of_the_contract_come_back_and_others_do_not(server):
    extensions = {"opensandbox.extensions.team": "agents", "opensandbox.extensions.cost": "7", "another": "x"}
    made = server.create(extensions=extensions)
    expected = {"opensandbox.extensions.cost": "7", "opensandbox.extensions.team": "agents"}
    assert made["extensions"] == expected
    assert server.get(made["id"]).json()["extensions"] == expected
    assert server.client.get("/v1/sandboxes").json()["items"][0]["extensions"] == expected
    assert "extensions" not in server.create()


def test_watching_shows_every_state_and_the_end(server):
    id = server.create()["id"]
    with server.client.stream("GET", f"/v1/sandboxes/{id}", params={"watch": "1"}) as stream:
        lines = (json.loads(line) for line in stream.iter_lines() if line)
        assert next(lines)["sandbox"]["status"]["state"] == "Running"
        server.client.post(f"/v1/sandboxes/{id}/pause")
        seen = [next(lines)["sandbox"]["status"]["state"]]
        if seen[-1] != "Paused":
            seen.append(next(lines)["sandbox"]["status"]["state"])
        assert seen[-1] == "Paused"
        server.delete(id)
        assert [event["type"] for event in lines][-1] == "deleted"


@pytest.mark.parametrize("prefix", ["", "/v1"])
def test_both_spellings_of_every_route(server, prefix):
    id = server.create()["id"]
    assert server.client.get(f"{prefix}/sandboxes/{id}").status_code == 200
    assert server.client.get(f"{prefix}/sandboxes/{id}/").status_code == 200
    assert server.client.delete(f"{prefix}/sandboxes/{id}").status_code == 204
