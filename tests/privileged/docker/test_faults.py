"""The engine ends, stalls, runs full or is changed by others while sandboxes are made and used: the API says what
happened in the contract's words, the state is the true one, and nothing is left behind."""

import concurrent.futures
import contextlib
import os
import signal
import socket
import subprocess
import threading

import pytest

import host_state
from registry import busybox_layer, tar

MIB = 1 << 20


def sockets(server):
    """Descriptors of the server that are sockets: ports that it keeps reserved are among them."""
    return sum(target.startswith("socket:") for target in host_state.descriptors(server.process.pid).values())


def listening(server):
    """Ports that the server holds: its own, and those it would have forgotten."""
    own = {target for target in host_state.descriptors(server.process.pid).values() if target.startswith("socket:")}
    with open("/proc/net/tcp") as table:
        rows = [line.split() for line in table][1:]
    return [int(row[1].split(":")[1], 16) for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in own]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_an_engine_that_keeps_containers_alive_is_restarted(spare_engine, make_server, how):
    engine = spare_engine
    server = make_server(engine)
    id = server.create()["id"]
    engine.stop(how)
    assert server.state(id) == "Running"
    engine.start()
    other = server.create()["id"]
    assert server.run(id, "echo before") == "before"
    assert server.run(other, "echo after") == "after"
    server.remove_all()
    assert engine.inventory()["containers"] == []


def test_an_engine_that_ends_its_containers_is_restarted(own_engine, make_server):
    engine = own_engine(live_restore=False)
    server = make_server(engine)
    id = server.create(entrypoint=["sleep", "1000"])["id"]
    engine.stop()
    engine.start()
    status = server.wait_state(id, "Terminated", "Failed")["status"]
    assert status["reason"] in ("CONTAINER_EXITED", "CONTAINER_EXITED_ERROR"), status
    server.delete(id)
    assert engine.inventory()["containers"] == []


def test_without_the_engine_records_are_shown_and_accepted_creates_wait(spare_engine, make_server):
    engine = spare_engine
    server = make_server(engine)
    id = server.create(metadata={"a": "1"})["id"]
    paused = server.create()["id"]
    assert server.client.post(f"/v1/sandboxes/{paused}/pause").status_code == 202
    os.kill(engine.pid, signal.SIGSTOP)
    later, unwanted = (server.post_sandbox(wait=0).json()["id"] for _ in range(2))
    engine.kill()
    assert server.get(id).json()["metadata"] == {"a": "1"}
    assert len(server.client.get("/v1/sandboxes").json()["items"]) == 4
    for path, sandbox, code in (("pause", id, "SANDBOX_PAUSE_FAILED"), ("resume", paused, "SANDBOX_RESUME_FAILED")):
        refused = server.client.post(f"/v1/sandboxes/{sandbox}/{path}")
        assert (refused.status_code, refused.json()["code"]) == (500, f"DOCKER::{code}"), refused.text
        assert "container engine" in refused.json()["message"], refused.text
    refused = server.client.get(f"/v1/sandboxes/{id}/diagnostics/logs", params={"scope": "container"})
    assert (refused.status_code, refused.json()["code"]) == (500, "DOCKER::SANDBOX_QUERY_FAILED"), refused.text
    lost = settled(server, snapshot_of(server, id))
    assert (lost["state"], lost["reason"]) == ("Failed", "snapshot_runtime_failed"), lost
    assert "container engine" in lost["message"], lost
    refused = server.post_sandbox()
    assert (refused.status_code, refused.json()["code"]) == (503, "DOCKER::UNAVAILABLE"), refused.text
    assert "the container engine does not answer" in refused.json()["message"], refused.text
    refused = server.client.delete(f"/v1/sandboxes/{unwanted}")
    assert (refused.status_code, refused.json()["code"]) == (500, "DOCKER::SANDBOX_DELETE_FAILED"), refused.text
    engine.start()
    server.wait_state(later, "Running")
    assert server.run(later, "echo done") == "done"
    assert server.state(paused) == "Paused"
    assert server.client.post(f"/v1/sandboxes/{paused}/resume").status_code == 202
    server.remove_all()
    assert engine.inventory()["containers"] == []


def test_a_server_starts_before_its_engine_can_be_used(spare_engine, make_server):
    """An engine that was never there is a mistake in the configuration; for one that was there the server waits."""
    engine = spare_engine
    server = make_server(engine)
    id = server.create()["id"]
    server.kill()
    engine.stop()
    with contextlib.suppress(FileNotFoundError):
        engine.socket.unlink()
    with pytest.raises(RuntimeError, match="INITIALIZATION_ERROR|engine"):
        server.start()
    engine.start()
    server.start()
    assert server.run(id, "echo kept") == "kept"
    server.remove_all()


def test_a_container_removed_by_hand_is_lost(server, engine):
    id = server.create()["id"]
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        seen = pool.submit(server.wait_state, id, "Terminated", "Failed")
        engine.remove(id)
        status = seen.result(180)["status"]
    # A forced removal kills first, and that may be heard first.
    assert status["reason"] in ("SANDBOX_REMOVED", "CONTAINER_EXITED_ERROR"), status
    assert server.client.get(f"/sandboxes/{id}/proxy/44772/ping").status_code in (404, 409)
    server.delete(id)
    assert server.get(id).status_code == 404


@pytest.mark.parametrize("ended, state, reason", [
    (lambda engine, name: engine.ask("POST", f"/containers/{name}/kill", params={"signal": "KILL"}), "Failed",
     "CONTAINER_EXITED_ERROR"),
    (lambda engine, name: engine.ask("POST", f"/containers/{name}/stop", params={"t": "1"}), None, None),
], ids=["kill", "stop"])
def test_a_container_ended_by_hand_is_told_at_once(server, engine, ended, state, reason):
    id = server.create()["id"]
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        seen = pool.submit(server.wait_state, id, "Terminated", "Failed")
        ended(engine, f"sandbox-{id}")
        status = seen.result(180)["status"]
    assert status["reason"].startswith("CONTAINER_EXITED"), status
    if state:
        assert (server.state(id), status["reason"]) == (state, reason) and "137" in status["message"], status


def test_a_container_paused_and_started_by_hand_is_told(server, engine):
    id = server.create()["id"]
    for action, state in (("pause", "Paused"), ("unpause", "Running")):
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            seen = pool.submit(server.wait_state, id, state)
            engine.ask("POST", f"/containers/sandbox-{id}/{action}")
            seen.result(180)
    assert server.run(id, "echo well") == "well"


def test_memory_that_runs_out_is_named(server):
    id = server.post_sandbox(resourceLimits={"memory": "32Mi"}, wait=0,
                             entrypoint=["busybox", "awk", 'BEGIN { x = "x"; while (1) x = x x }']).json()["id"]
    status = server.wait_state(id, "Failed", "Terminated")["status"]
    assert status["state"] == "Failed" and ("MEMORY" in status["reason"] or "137" in status["message"]), status


def test_an_image_removed_under_a_sandbox(server, engine):
    engine.load("short-lived:1", [busybox_layer(), tar({"mark": "1"})])
    id = server.create(image={"uri": "short-lived:1"})["id"]
    engine.ask("DELETE", "/images/short-lived:1", params={"force": "1"})
    shown = server.get(id).json()
    assert shown["image"] == {"uri": "short-lived:1"} and shown["status"]["state"] == "Running"
    assert server.run(id, "cat /mark") == "1"
    assert len(server.client.get("/v1/sandboxes").json()["items"]) == 1
    failed = server.post_sandbox(image={"uri": "short-lived:1"}).json()
    assert failed["code"] == "DOCKER::SANDBOX_IMAGE_PULL_FAILED", failed
    assert "short-lived:1" in failed["message"]
    server.remove_all()
    engine.ask("POST", "/images/prune")


def snapshot_of(server, id, name="s"):
    made = server.client.post(f"/v1/sandboxes/{id}/snapshots", json={"name": name})
    assert made.status_code == 202, made.text
    return made.json()["id"]


def settled(server, snapshot):
    shown = server.client.get(f"/v1/snapshots/{snapshot}", params={"wait": 150}).json()
    assert shown["status"]["state"] != "Creating", shown
    return shown["status"]


def test_a_snapshot_whose_image_is_gone_cannot_be_restored(server, engine):
    id = server.create()["id"]
    snapshot = snapshot_of(server, id)
    assert settled(server, snapshot)["state"] == "Ready"
    engine.ask("DELETE", f"/images/opensandbox-snapshots:{snapshot}", params={"force": "1"})
    made = server.post_sandbox(image=..., snapshotId=snapshot)
    assert made.status_code in (409, 500) and made.json()["code"].startswith(("SNAPSHOT::", "DOCKER::")), made.text
    assert server.client.delete(f"/v1/snapshots/{snapshot}").status_code == 204


def test_the_engine_is_killed_in_the_middle_of_a_snapshot(own_engine, make_server):
    engine = own_engine()
    server = make_server(engine)
    id = server.create()["id"]
    server.run(id, "head -c 300000000 /dev/zero > /big")
    with engine.events(type=["container"], event=["pause"]) as events:
        snapshot = snapshot_of(server, id)
        next(events)  # the engine pauses what it copies
        # It tells before it has kept that in its records. Killed in between it takes the container for a running one,
        # and no call of its API lets it go on; it answers this when it has. On a slow day of ours it is done by then.
        engine.inspect(id)
        engine.kill()
    engine.start()
    status = settled(server, snapshot)
    assert status["state"] in ("Ready", "Failed") and status["reason"], status
    images = engine.inventory()["images"]
    assert (f"opensandbox-snapshots:{snapshot}" in images) == (status["state"] == "Ready"), (status, images)
    # The engine forgot to let it go on.
    server.wait_state(id, "Running")
    assert server.run(id, "echo goes on") == "goes on"
    assert server.client.delete(f"/v1/snapshots/{snapshot}").status_code == 204
    server.remove_all()
    assert not [name for name in engine.inventory()["images"] if "snapshots" in name]
    assert engine.inventory()["containers"] == []


@contextlib.contextmanager
def stalling_registry():
    """Accepts connections and says nothing: (port, event that a client has connected)."""
    came, ended = threading.Event(), []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def serve():
            with contextlib.suppress(OSError):
                while True:
                    ended.append(listener.accept()[0])
                    came.set()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1], came
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for peer in ended:
                peer.close()


def test_a_sandbox_is_deleted_in_the_middle_of_its_pull(server, engine):
    before = listening(server)
    with stalling_registry() as (port, came):
        made = server.post_sandbox(wait=0, image={"uri": f"127.0.0.1:{port}/slow:1"}).json()
        assert came.wait(180)
        assert server.state(made["id"]) == "Pending"
        # Others do not wait for it.
        other = server.create()["id"]
        assert server.run(other, "echo quick") == "quick"
        server.delete(made["id"])
        assert server.get(made["id"]).status_code == 404
    server.delete(other)
    assert engine.list() == []
    assert listening(server) == before


def test_the_engine_is_killed_in_the_middle_of_a_pull(spare_engine, make_server):
    engine = spare_engine
    server = make_server(engine)
    with stalling_registry() as (port, came):
        made = server.post_sandbox(wait=0, image={"uri": f"127.0.0.1:{port}/slow:1"}).json()
        assert came.wait(180)
        engine.kill()
    engine.start()
    # The registry is gone meanwhile: whether it was tried again or not, it ends as a pull that failed.
    status = server.wait_state(made["id"], "Failed")["status"]
    assert status["reason"] == "DOCKER::SANDBOX_IMAGE_PULL_FAILED", status
    server.remove_all()
    assert engine.inventory()["containers"] == []


def test_the_engine_is_killed_in_the_middle_of_creates(own_engine, make_server):
    engine = own_engine()
    server = make_server(engine)
    with engine.events(type=["container"], event=["start"]) as events:
        ids = [server.post_sandbox(wait=0).json()["id"] for _ in range(8)]
        next(events)
        engine.kill()
    engine.start()
    #  A sandbox with an address that the engine has given away twice cannot be reached, and is Failed after a minute.
    states = {id: server.wait_state(id, "Running", "Failed") for id in ids}
    engine.drop_forgotten_networks()
    addresses = {each["id"]: each["address"] for each in engine.list()}
    for id, shown in states.items():
        if shown["status"]["state"] == "Failed":
            assert shown["status"]["reason"].startswith("DOCKER::"), shown
        elif list(addresses.values()).count(addresses[id]) == 1:  # else either container may answer
            assert server.run(id, "echo up") == "up"
    alive = {id for id in ids if server.state(id) == "Running"}
    assert engine.wait_for_exactly(alive, 120) == alive
    server.remove_all()
    assert engine.inventory()["containers"] == []
    assert listening(server) == [server.port]


def test_the_socket_goes_away_and_comes_back(spare_engine, make_server):
    engine = spare_engine
    server = make_server(engine)
    id = server.create()["id"]
    hidden = engine.socket.with_suffix(".hidden")
    engine.socket.rename(hidden)
    made = server.post_sandbox(wait=0).json()
    assert server.state(id) == "Running"
    hidden.rename(engine.socket)
    server.wait_state(made["id"], "Running")
    server.remove_all()
    assert engine.inventory()["containers"] == []


def test_the_server_is_killed_in_the_middle_of_creates(own_engine, make_server):
    """Answered creates are carried out; containers that it had begun are adopted or removed."""
    engine = own_engine()
    server = make_server(engine)
    for turn, moments in enumerate((["create"], ["start"], ["start", "create"])):
        server.delete(server.create()["id"])  # it has put execd in its place: that is not what gets killed here
        with engine.events(type=["container"], event=moments) as events:
            answers = [server.post_sandbox(wait=0, volumes=[
                {"name": "v", "mountPath": "/v",
                 "pvc": {"claimName": f"killed-{turn}-{n}", "deleteOnSandboxTermination": True}}]) for n in range(6)]
            for _ in range(turn + 1):
                next(events)
            server.kill()
        ids = {answer.json()["id"] for answer in answers}
        server.start()
        for id in ids:
            server.wait_state(id, "Running")
            assert server.run(id, "echo up") == "up"
        assert engine.wait_for_exactly(ids, 120) == ids
        assert len(engine.containers()) == len(ids)
        server.remove_all()
        assert listening(server) == [server.port]
        assert engine.inventory()["volumes"] == [] and engine.inventory()["containers"] == []


def uploads_stop_at_the_reserve(server, id):
    def upload(content):
        return server.client.post(f"/sandboxes/{id}/proxy/44772/files/upload", headers=server.token(id), files=[
            ("metadata", (None, '{"path": "/root/upload"}', "application/json")), ("file", ("file", content))])

    assert upload(b"fits").status_code == 200
    free = int(server.run(id, "df -k / | tail -1").split()[3]) << 10
    refused = upload(bytes(free - MIB))  # a twentieth of 96 MiB is kept free
    assert (refused.status_code, refused.json()["code"]) == (507, "DISK_LOW"), refused.text
    assert server.run(id, "cat /root/upload") == "fits"


def fill(server, id):
    assert "error" in server.run(id, "head -c 200000000 /dev/zero > /root/file").lower()


def snapshot_fails(server, id, why):
    snapshot = snapshot_of(server, id)
    status = settled(server, snapshot)
    assert (status["state"], status["reason"]) == ("Failed", "snapshot_runtime_failed") and why in status["message"], status
    assert server.client.delete(f"/v1/snapshots/{snapshot}").status_code == 204


def test_a_full_disk(own_engine, make_server, tmp_path):
    image, place = tmp_path / "disk", tmp_path / "data"
    place.mkdir()
    with open(image, "wb") as file:
        file.truncate(96 * MIB)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, place], check=True)
    try:
        engine = own_engine(data=place)
        server = make_server(engine)
        before = engine.inventory()
        filler = server.create()["id"]
        neighbour = server.create()["id"]
        uploads_stop_at_the_reserve(server, filler)
        fill(server, filler)
        refused = server.post_sandbox()
        assert (refused.status_code, refused.json()["code"]) == (429, "DOCKER::DISK_LOW"), refused.text
        assert "[docker] reserve_bytes" in refused.json()["message"], refused.text
        snapshot_fails(server, filler, "[docker] reserve_bytes")
        assert server.run(neighbour, "echo unharmed") == "unharmed"
        server.run(filler, "rm /root/file")
        assert server.run(server.create()["id"], "echo room > /root/x; cat /root/x") == "room"
        server.remove_all()

        server.stop()
        server = make_server(engine, settings={"docker": {"reserve_bytes": 0, "reserve_inodes": 0}})
        filler = server.create()["id"]
        neighbour = server.create()["id"]
        fill(server, filler)
        late = server.post_sandbox().json()
        assert late["code"] == "DOCKER::SANDBOX_START_FAILED", late
        assert "no space left" in late["message"].lower(), late
        snapshot_fails(server, filler, "no space left")
        assert server.run(neighbour, "echo unharmed") == "unharmed"
        server.run(filler, "rm /root/file")
        assert server.run(server.create()["id"], "echo room > /root/x; cat /root/x") == "room"
        server.remove_all()
        assert engine.inventory() == {**before, "containers": []}
        server.stop()
        engine.close()
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def test_nothing_is_leaked_by_many_failures(server, engine):
    """Each fails at another step; descriptors and ports are those of before."""
    server.delete(server.create()["id"])
    failures = [{"image": {"uri": "127.0.0.1:1/none:1"}}, {"image": {"uri": "no-shell"}},
                {"platform": {"os": "linux", "arch": "arm64"}}]
    engine.load("no-shell:latest", [tar({"file": "x"})])

    def fail(fields):
        made = server.post_sandbox(**fields, volumes=[{"name": "v", "mountPath": "/v", "pvc": {
            "claimName": "undone", "deleteOnSandboxTermination": True}}])
        if made.status_code == 202:  # its container has run, and ended
            assert made.json()["status"]["state"] == "Failed", made.text
            server.delete(made.json()["id"])
        else:
            assert made.json()["code"].startswith(("DOCKER::", "SANDBOX::")), made.text

    for fields in failures:
        fail(fields)
    before = sockets(server)
    for _ in range(3):
        for fields in failures:
            fail(fields)
    assert sockets(server) <= before + 2  # connections that are kept for the next request
    assert listening(server) == [server.port]
    engine.ask("DELETE", "/images/no-shell:latest")
