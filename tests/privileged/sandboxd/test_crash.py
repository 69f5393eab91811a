"""sandboxd is killed at every step of what it does. When it is started again nothing is lost: who was not asked about
lives on, and what was answered as done is so. And nothing is left."""

import json
import os
import pathlib
import random
import subprocess
import tempfile
import threading
import uuid

import httpx
import pytest

import host_state
from sandboxd_process import Sandbox, binary

READY_SLOTS = 2
# So few addresses and id ranges that a lost one shows.
SETTINGS = {"network": {"subnet": "10.94.0.0/28", "ready_slots": READY_SLOTS}}
CAPACITY = 13

CREATE_STEPS = ["directories", "record", "slot", "volume staged", "volume published", "volume opened", "volumes",
                "cgroup", "launched", "started"]
REMOVE_STEPS = ["removal recorded", "killed", "cgroup removed", "slot returned", "volume withdrawn", "volumes removed",
                "erased"]
SNAPSHOT_STEPS = ["staged", "frozen", "copied", "recorded", "synced", "published"]

VOLUME = {"kind": "named", "source": "crash-data", "target": "/data", "create": True, "delete_with_sandbox": True}


@pytest.fixture
def crashing(make_daemon):
    return make_daemon(settings=SETTINGS)


@pytest.fixture
def bystander(crashing):
    """A sandbox that has nothing to do with the crash."""
    sandbox = crashing.create("bystander", ports=[{"port": 8080}])
    sandbox.output("echo kept > /root/file")
    return sandbox


def crash(daemon, step, operation):
    """The operation with a daemon that ends at the step; then the next daemon."""
    daemon.stop()
    daemon.start(env={"SANDBOXD_FAULT": step})
    with pytest.raises(httpx.TransportError):
        operation()
    assert daemon.process.wait(30) == 137
    daemon.client.close()
    daemon.start()


def check_host(daemon, living, snapshots=(), volumes=(), recycled=0):
    """Nothing is on the host but what these sandboxes own. Up to `recycled` slots may be ready besides the usual."""
    statuses = {status["id"]: status for status in daemon.list()}
    assert set(statuses) == set(living)
    host_state.wait_for_empty(daemon.state / "trash")
    assert host_state.files(daemon) == {
        "sandboxes": set(living), "trash": set(), "sockets": {f"{id}.sock" for id in living},
        "snapshots": set(snapshots), "snapshots in the making": set(),
        "volumes": set(volumes), "volumes in the making": set()}
    assert {os.path.basename(path) for path in host_state.cgroups(daemon)} == set(living)
    for pid in host_state.processes(daemon):
        cgroup = pathlib.Path(f"/proc/{pid}/cgroup").read_text()
        assert any(f"/{daemon.cgroup_parent}/{id}\n" in cgroup for id in living)
    published = [port for status in statuses.values() for port in status["ports"]]
    assert len(host_state.elements("published")) == len(published)
    # The kernel takes interfaces of the dead away in its own time, and the pool refills in its own.
    host_state.wait_for_links(
        lambda: host_state.interfaces() == host_state.member_interfaces()
        and 0 <= len(host_state.interfaces()) - READY_SLOTS - len(living) <= recycled,
        lambda: f"interfaces {host_state.interfaces()}, admitted {host_state.member_interfaces()}, living {living}")
    assert not [path for path in host_state.mounts(daemon.pid) if "/sandboxes/" in path or "/volumes/" in path]


def check_works(daemon, sandbox):
    assert sandbox.inspect()["state"] == "running"
    assert sandbox.output("cat /root/file") == "kept"


def check_room(daemon, living):
    """Every address and id range can be had."""
    others = [f"room-{n}" for n in range(CAPACITY - len(living))]
    for id in others:
        daemon.create(id)
    status, problem = daemon.refused(id="one-too-many")
    assert status == 503 and "no address left" in problem["message"]
    for id in others:
        assert daemon.client.delete(f"/v1/sandboxes/{id}").status_code == 204


@pytest.mark.parametrize("step", CREATE_STEPS)
def test_create(crashing, bystander, step):
    port = bystander.status["ports"][0]["host_port"] + 1
    crash(crashing, step, lambda: crashing.create("half", volumes=[VOLUME], ports=[{"port": 80, "host_port": port}]))
    # With a recorded process it is whole, and whoever asked finds it.
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


@pytest.mark.parametrize("step", ["withdrawn", "collected"])
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


@pytest.fixture(params=["ext4", "tmpfs"])
def small_disk(request):
    place = pathlib.Path(tempfile.mkdtemp(prefix="disk-"))
    if request.param == "ext4":
        image = f"{place}.image"
        subprocess.run(["truncate", "-s", "32M", image], check=True)
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", image], check=True)
        subprocess.run(["mount", "-o", "loop", image, place], check=True)
    else:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", place], check=True)
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)  # a test that failed may still have it open
    place.rmdir()
    if request.param == "ext4":
        os.unlink(image)


def test_a_full_disk_refuses_and_undoes(small_disk, make_daemon):
    daemon = make_daemon(settings=SETTINGS, directory=small_disk)
    alive = daemon.create("alive")
    stuffing = small_disk / "stuffing"
    with open(stuffing, "wb", buffering=0) as file, pytest.raises(OSError):
        while True:
            file.write(bytes(4096))
    size = stuffing.stat().st_size
    refused = 0
    # More and more room: it runs out at one step after the other.
    for pages in range(16):
        os.truncate(stuffing, size - pages * 4096)
        os.sync()
        answer = daemon.client.post("/v1/sandboxes", json={"id": f"full-{pages}", "image": "host"})
        if answer.status_code == 201:
            assert daemon.client.delete(f"/v1/sandboxes/full-{pages}").status_code == 204
            continue
        refused += 1
        assert "No space left on device" in answer.json()["message"], answer.text
        check_host(daemon, ["alive"], recycled=3 * READY_SLOTS)
    assert refused > 0
    os.truncate(stuffing, size)
    with open(stuffing, "ab", buffering=0) as file, pytest.raises(OSError):
        while True:
            file.write(bytes(1024))
    for path, body in (("pause", None), ("snapshots", {"id": str(uuid.uuid4())})):
        answer = daemon.client.post(f"/v1/sandboxes/alive/{path}", json=body)
        assert answer.status_code >= 400 and "No space left on device" in answer.json()["message"], answer.text
    check_host(daemon, ["alive"], recycled=3 * READY_SLOTS)
    assert alive.inspect()["state"] == "running"
    assert alive.output("echo alive") == "alive"
    alive.remove()
    check_host(daemon, [], recycled=3 * READY_SLOTS)
    stuffing.unlink()
    assert daemon.create("full").output("echo room") == "room"
    daemon.close()


def test_a_record_that_cannot_be_read_is_kept_for_a_look(crashing, bystander):
    crashing.create("broken")
    crashing.kill()
    record = crashing.state / "sandboxes" / "broken" / "record.json"
    record.write_text("{")
    crashing.start()
    assert [status["id"] for status in crashing.list()] == ["bystander"]
    assert record.read_text() == "{"
    assert {os.path.basename(path) for path in host_state.cgroups(crashing)} == {"bystander"}
    assert "record cannot be read" in crashing.log()
    check_works(crashing, bystander)
    status, problem = crashing.refused(id="broken")
    assert status == 409 and str(record.parent) in problem["message"]
    assert record.read_text() == "{"


def test_an_empty_record_is_a_create_that_a_power_cut_ended(crashing, bystander):
    crashing.create("cut")
    crashing.kill()
    (crashing.state / "sandboxes" / "cut" / "record.json").write_text("")
    crashing.start()
    check_host(crashing, ["bystander"])


def test_one_daemon_per_state_directory(crashing, bystander):
    second = subprocess.run(
        [binary("sandboxd"), "--config", crashing.config, "--state-dir", crashing.state, "--run-dir",
         crashing.directory / "run2", "--execd", binary("execd")], capture_output=True, text=True, timeout=60)
    assert second.returncode == 1
    assert f"another sandboxd uses the state directory {crashing.state}" in second.stderr
    check_works(crashing, bystander)


def test_what_had_ended_and_what_was_paused_are_so_after_a_restart(crashing):
    crashing.create("ended", entrypoint=["sh", "-c", "exit 3"])
    ended = crashing.wait_for_end("ended")
    paused = crashing.create("paused")
    assert crashing.client.post("/v1/sandboxes/paused/pause").status_code == 204
    for end in (crashing.kill, crashing.stop):
        end()
        crashing.start()
        assert crashing.client.get("/v1/sandboxes/ended").json() == ended
        assert paused.inspect()["state"] == "paused"
    assert crashing.client.post("/v1/sandboxes/paused/resume").status_code == 204
    assert paused.output("echo on") == "on"
    assert crashing.client.delete("/v1/sandboxes/ended").status_code == 204


def test_after_a_restart_of_the_host_sandboxes_have_ended(crashing, bystander):
    crashing.create("before", ports=[{"port": 80}])
    crashing.kill()
    for cgroup in host_state.cgroups(crashing):
        if cgroup.endswith("/before") and os.path.exists(f"{cgroup}/cgroup.kill"):
            pathlib.Path(f"{cgroup}/cgroup.kill").write_text("1")
    file = crashing.state / "sandboxes" / "before" / "record.json"
    record = json.loads(file.read_text())
    record["process"]["boot_id"] = str(uuid.uuid4())
    file.write_text(json.dumps(record))
    crashing.start()
    status = crashing.client.get("/v1/sandboxes/before").json()
    assert (status["state"], status["reason"]) == ("exited", "HOST_RESTARTED")
    assert status["address"] == "" and status["ports"] == []
    assert crashing.client.delete("/v1/sandboxes/before").status_code == 204
    check_host(crashing, ["bystander"])
    check_works(crashing, bystander)
