"""sandboxd is killed at every step of what it does. When it is started again nothing is lost: who was not asked about
lives on, and what was answered as done is so. And nothing is left."""

import os
import pathlib
import random
import re
import threading
import uuid

import httpx
import pytest

import host_state
from crash_checks import CAPACITY, READY_SLOTS, check_host, check_room, check_works, crash
from sandboxd_process import ROOT, Sandbox

CREATE_STEPS = ["directories", "record", "slot", "volume staged", "volume published", "volume opened", "volumes",
                "cgroup", "launched", "started"]
REMOVE_STEPS = ["removal recorded", "killed", "cgroup removed", "slot returned", "volume withdrawn", "volumes removed",
                "erased"]
SNAPSHOT_STEPS = ["staged", "frozen", "copied", "recorded", "synced", "published"]
SNAPSHOT_REMOVE_STEPS = ["withdrawn", "collected"]

VOLUME = {"kind": "named", "source": "crash-data", "target": "/data", "create": True, "delete_with_sandbox": True}


def test_no_step_is_forgotten_here():
    found = set()
    for file in (ROOT / "src" / "sandboxd").rglob("*.cc"):
        if not file.name.endswith("_test.cc"):
            found |= set(re.findall(r'\b(?:after_)?step\("([^"]+)"\)', file.read_text()))
    assert found == {*CREATE_STEPS, *REMOVE_STEPS, *SNAPSHOT_STEPS, *SNAPSHOT_REMOVE_STEPS, "hidden",
                     "host path checked"}  # which changes nothing


@pytest.mark.parametrize("step", CREATE_STEPS)
def test_create(crashing, bystander, step):
    port = bystander.status["ports"][0]["host_port"] + 1
    crash(crashing, step, lambda: crashing.create("half", volumes=[VOLUME], ports=[{"port": 80, "host_port": port}]))
    #  With a recorded process the create is kept, and its client finds the sandbox.
    whole = step == "started"
    living = ["bystander", "half"] if whole else ["bystander"]
    check_host(crashing, living, volumes=[VOLUME["source"]] if whole else [])
    check_works(crashing, bystander)
    if whole:
        half = Sandbox(crashing, crashing.client.get("/v1/sandboxes/half").json())
        assert half.output("echo made") == "made"
        half.remove()
    check_room(crashing, ["bystander"])
    again = crashing.create("half", volumes=[VOLUME], ports=[{"port": 80, "host_port": port}])
    assert again.output("ls -A /data; cat /root/file 2>/dev/null || true") == ""
    again.remove()
    assert host_state.names(crashing.state / "volumes") == {".tmp"}


@pytest.mark.parametrize("step", REMOVE_STEPS)
def test_remove(crashing, bystander, step):
    target = crashing.create("target", volumes=[VOLUME], ports=[{"port": 80}])
    target.output("echo x > /data/file")
    crash(crashing, step, target.remove)
    check_host(crashing, ["bystander"])
    check_works(crashing, bystander)
    check_room(crashing, ["bystander"])


@pytest.mark.parametrize("step", SNAPSHOT_STEPS)
def test_snapshot(crashing, bystander, step):
    target = crashing.create("target")
    target.output("echo kept > /root/file")
    id = str(uuid.uuid4())
    crash(crashing, step, lambda: crashing.client.post("/v1/sandboxes/target/snapshots", json={"id": id}))
    whole = step == "published"
    check_host(crashing, ["bystander", "target"], snapshots=[id] if whole else [])
    check_works(crashing, bystander)
    check_works(crashing, target)  # not frozen either
    if not whole:
        assert crashing.client.post("/v1/sandboxes/target/snapshots", json={"id": id}).status_code == 201
    copy = crashing.create("copy", image="", snapshot=id)
    assert copy.output("cat /root/file") == "kept"


@pytest.mark.parametrize("step", SNAPSHOT_REMOVE_STEPS)
def test_remove_of_a_snapshot(crashing, bystander, step):
    id = str(uuid.uuid4())
    assert crashing.client.post("/v1/sandboxes/bystander/snapshots", json={"id": id}).status_code == 201
    crash(crashing, step, lambda: crashing.client.delete(f"/v1/snapshots/{id}"))
    check_host(crashing, ["bystander"])
    assert crashing.client.get(f"/v1/snapshots/{id}").status_code == 404


def test_a_snapshot_of_a_paused_sandbox_leaves_it_paused(crashing):
    sandbox = crashing.create("paused")
    assert crashing.client.post("/v1/sandboxes/paused/pause").status_code == 204
    id = str(uuid.uuid4())
    crash(crashing, "copied", lambda: crashing.client.post("/v1/sandboxes/paused/snapshots", json={"id": id}))
    assert sandbox.inspect()["state"] == "paused"
    assert crashing.client.post("/v1/sandboxes/paused/resume").status_code == 204
    assert sandbox.output("echo on") == "on"
    crashing.kill()
    crashing.start()
    assert sandbox.inspect()["state"] == "running"


def test_a_removed_snapshot_that_another_needs_stays_hidden(crashing):
    below, above = str(uuid.uuid4()), str(uuid.uuid4())
    sandbox = crashing.create("below")
    sandbox.output("echo kept > /root/file")
    assert crashing.client.post("/v1/sandboxes/below/snapshots", json={"id": below}).status_code == 201
    crashing.create("above", image="", snapshot=below)
    assert crashing.client.post("/v1/sandboxes/above/snapshots", json={"id": above}).status_code == 201
    crashing.remove_all()
    crash(crashing, "hidden", lambda: crashing.client.delete(f"/v1/snapshots/{below}"))
    assert [each["id"] for each in crashing.client.get("/v1/snapshots").json()["snapshots"]] == [above]
    assert crashing.create("copy", image="", snapshot=above).output("cat /root/file") == "kept"
    crashing.remove_all()
    assert crashing.client.delete(f"/v1/snapshots/{above}").status_code == 204
    check_host(crashing, [], recycled=3 * READY_SLOTS)


@pytest.mark.parametrize("first", ["launched", "killed"])
@pytest.mark.parametrize("second", ["cgroup removed", "volumes removed", "erased"])
def test_a_second_crash_while_the_first_is_cleared_up(crashing, bystander, first, second):
    target = None if first == "launched" else crashing.create("target", volumes=[VOLUME])
    crashing.stop()
    crashing.start(env={"SANDBOXD_FAULT": first})
    with pytest.raises(httpx.TransportError):
        target.remove() if target else crashing.create("target", volumes=[VOLUME])
    assert crashing.process.wait(30) == 137
    crashing.client.close()
    with pytest.raises(RuntimeError, match="sandboxd ended with 137"):
        crashing.start(env={"SANDBOXD_FAULT": second})
    crashing.start()
    check_host(crashing, ["bystander"])
    check_works(crashing, bystander)


def test_told_to_end_among_many_creates_it_leaves_them_whole_or_not_at_all(crashing):
    answers = {}

    def create(id):
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(crashing.run / "sandboxd.sock")),
                          base_url="http://sandboxd", timeout=60) as client:
            try:
                answers[id] = client.post("/v1/sandboxes", json={"id": id, "image": "host"}).status_code
            except httpx.TransportError:
                answers[id] = None
        begun.release()

    begun = threading.Semaphore(0)
    threads = [threading.Thread(target=create, args=(f"many-{n}",)) for n in range(10)]
    for thread in threads:
        thread.start()
    begun.acquire()
    crashing.stop()
    for thread in threads:
        thread.join()
    crashing.start()
    there = {status["id"] for status in crashing.list()}
    assert {id for id, status in answers.items() if status == 201} <= there
    check_host(crashing, sorted(there))
    for status in crashing.list():
        assert Sandbox(crashing, status).execd.get("/ping").status_code == 200


def test_a_volume_in_use_stays_in_use(crashing):
    sandbox = crashing.create("user", volumes=[VOLUME])
    crashing.kill()
    crashing.start()
    assert crashing.client.delete(f"/v1/volumes/{VOLUME['source']}").status_code == 409
    sandbox.output("echo x > /data/file")
    sandbox.remove()
    assert crashing.client.get("/v1/volumes").json()["volumes"] == []


@pytest.mark.parametrize("network", ["bridge", "none"])
def test_ids_and_addresses_of_sandboxes_that_outlived_a_daemon_are_used_once(crashing, network):
    first = [f"first-{n}" for n in range(6)]
    for id in first:
        crashing.create(id, network=network)
    crashing.kill()
    crashing.start()
    for id in first:
        assert crashing.client.delete(f"/v1/sandboxes/{id}").status_code == 204
    pids = [crashing.create(f"second-{n}", network=network).status["pid"] for n in range(CAPACITY)]
    assert len({pathlib.Path(f"/proc/{pid}/uid_map").read_text() for pid in pids}) == CAPACITY
    assert crashing.refused(id="one-too-many", network=network)[0] == 503


def test_idle_slots_of_one_kind_make_room_for_the_other(crashing):
    for network in ("none", "bridge", "none"):
        for n in range(CAPACITY):
            crashing.create(f"kind-{n}", network=network)
        crashing.remove_all()


def test_killed_among_many_creates_and_removes(crashing):
    """Ten rounds; each is killed after a number of answers that differs from round to round."""
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance = random.Random(seed)
    must, may = set(), set()  # ids that exist, and ids of whose requests there was no answer
    for turn in range(10):
        # Twenty at a time are more than there are addresses: the others have no network.
        enough = threading.Semaphore(0)
        removals = sorted(must)[:6]
        must -= set(removals)
        lock = threading.Lock()

        def request(method, id):
            network = "none" if id[-1] in "13579" else "bridge"
            with httpx.Client(transport=httpx.HTTPTransport(uds=str(crashing.run / "sandboxd.sock")),
                              base_url="http://sandboxd", timeout=60) as client:
                try:
                    if method == "create":
                        answer = client.post("/v1/sandboxes", json={"id": id, "image": "host", "network": network})
                    else:
                        answer = client.delete(f"/v1/sandboxes/{id}")
                except httpx.TransportError:
                    with lock:
                        may.add(id)
                    return
            with lock:
                if method == "create" and answer.status_code == 201:
                    must.add(id)
                elif method == "create":
                    assert answer.status_code == 503, answer.text
                else:
                    assert answer.status_code == 204, answer.text
            enough.release()

        wanted = [("remove", id) for id in removals]
        wanted += [("create", f"many-{turn}-{n}") for n in range(20 - len(wanted))]
        chance.shuffle(wanted)
        threads = [threading.Thread(target=request, args=each) for each in wanted]
        for thread in threads:
            thread.start()
        for _ in range(chance.randrange(1, 15)):
            enough.acquire()
        crashing.process.kill()
        crashing.process.wait()
        for thread in threads:
            thread.join()
        crashing.client.close()
        crashing.start()
        there = {status["id"] for status in crashing.list()}
        assert must <= there <= must | may
        must, may = there, set()
        for status in crashing.list():
            assert status["state"] == "running", crashing.log()[-8000:]
            assert Sandbox(crashing, status).execd.get("/ping").status_code == 200
        assert host_state.files(crashing)["sandboxes"] == there
        assert host_state.files(crashing)["trash"] == set()
        assert {os.path.basename(path) for path in host_state.cgroups(crashing)} == there
    crashing.remove_all()
    host_state.wait_for_empty(crashing.state / "trash")
    assert not any(host_state.files(crashing).values())
    assert host_state.cgroups(crashing) == host_state.processes(crashing) == set()
    check_room(crashing, [])
