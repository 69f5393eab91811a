"""Starts of sandboxd with records it cannot read, another daemon, another boot; and a full disk."""

import json
import os
import pathlib
import subprocess
import tempfile
import uuid

import pytest

import host_state
from crash_checks import CAPACITY, READY_SLOTS, SETTINGS, check_host, check_works
from sandboxd_process import binary


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


def fill(path, chunk):
    """Appends to `path` until the disk is full, and stays so: ext4 frees blocks of deleted files only when its journal
    commits, so it is committed and filled again until there was nothing left to take."""
    with open(path, "ab", buffering=0) as file:
        written = True
        while written:
            os.sync()
            written = False
            with pytest.raises(OSError, match="No space left"):
                while True:
                    file.write(bytes(chunk))
                    written = True


def test_a_full_disk_refuses_and_undoes(small_disk, make_daemon):
    # Without the reserve, which would refuse creates before the disk is full.
    unguarded = {"disk": {"reserve_bytes": 0, "reserve_inodes": 0, "snapshot_bytes": 0}}
    daemon = make_daemon(settings={**SETTINGS, **unguarded}, directory=small_disk)
    alive = daemon.create("alive")
    stuffing = small_disk / "stuffing"
    living = ["alive"]

    def is_refused(id):
        """Or made. Refused, it leaves nothing."""
        answer = daemon.client.post("/v1/sandboxes", json={"id": id, "image": "host"})
        if answer.status_code == 201:
            return False
        assert "No space left on device" in answer.json()["message"], answer.text
        check_host(daemon, living, recycled=3 * READY_SLOTS)
        return True

    #  Prepared slots and roots need almost no space: they are used up, and stay in use.
    fill(stuffing, 4096)
    while not is_refused(f"kept-{len(living)}"):
        living.append(f"kept-{len(living)}")
        fill(stuffing, 4096)
    # More and more room: it runs out at one step after the other.
    fill(stuffing, 4096)
    size = stuffing.stat().st_size
    for pages in range(16):
        os.truncate(stuffing, size - pages * 4096)
        os.sync()
        if not is_refused(f"full-{pages}"):
            assert daemon.client.delete(f"/v1/sandboxes/full-{pages}").status_code == 204
    for id in living[1:]:
        assert daemon.client.delete(f"/v1/sandboxes/{id}").status_code == 204
    check_host(daemon, ["alive"], recycled=3 * READY_SLOTS)  # and nothing more is being removed
    os.truncate(stuffing, size)
    for path, body in (("pause", None), ("snapshots", {"id": str(uuid.uuid4())})):
        fill(stuffing, 1024)
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


def test_a_record_of_an_older_version_keeps_its_sandbox_and_its_entrypoint(crashing, bystander):
    requested = ["tail -f /dev/null"]
    old = crashing.create("old", labels={"k": "v"}, requested_entrypoint=requested)
    crashing.kill()
    file = crashing.state / "sandboxes" / "old" / "record.json"
    record = json.loads(file.read_text())
    for part in ("spec", "status"):
        assert record[part].pop("requested_entrypoint") == requested
        record[part]["labels"]["opensandbox.io/entrypoint"] = json.dumps(requested)
    file.write_text(json.dumps(record))
    crashing.start()
    status = crashing.client.get("/v1/sandboxes/old").json()
    assert (status["state"], status["requested_entrypoint"], status["labels"]) == ("running", requested, {"k": "v"})
    assert old.output("echo here") == "here"
    old.remove()
    check_works(crashing, bystander)


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


def test_two_daemons_do_not_share_a_network(crashing, bystander, tmp_path):
    second = subprocess.run(
        [binary("sandboxd"), "--config", crashing.config, "--state-dir", tmp_path / "state", "--run-dir", tmp_path / "run",
         "--execd", binary("execd")], capture_output=True, text=True, timeout=60)
    assert second.returncode == 1
    assert 'network.table "opensandbox": another sandboxd on this host uses it' in second.stderr
    check_works(crashing, bystander)


def test_ended_and_paused_sandboxes_are_so_after_a_restart(crashing):
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


def test_a_sandbox_in_the_hosts_network_outlives_the_daemon(make_daemon):
    daemon = make_daemon(settings={**SETTINGS, "sandbox": {"allow_host_network": True}})
    sandbox = daemon.create("in-host", network="host")
    sandbox.output("echo kept > /root/file")
    for end in (daemon.kill, daemon.stop):
        end()
        daemon.start()
        check_works(daemon, sandbox)
    sandbox.remove()
    #  Its slot is not given to others: they have networks of their own, and no id range is lost.
    others = [daemon.create(f"none-{n}", network="none") for n in range(CAPACITY)]
    for other in others:
        assert other.output("ls /sys/class/net") == "lo"
        other.remove()


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
