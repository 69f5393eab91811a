"""A disk that is full: errors say so, nothing half-made stays, and removing something helps."""

import contextlib
import os
import subprocess
import tempfile

import pytest

from registry import busybox_layer, docker_archive, tar
from sandboxd_process import Sandboxd

MIB = 1 << 20


@contextlib.contextmanager
def daemon_on(options, settings=None):
    with tempfile.TemporaryDirectory(prefix="osb-small-") as place:  # short: names of sockets are
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"{options},mode=711", "small", place], check=True)
        try:
            daemon = Sandboxd(directory=place, settings=settings)
            yield daemon
            daemon.close()
        finally:
            subprocess.run(["umount", "--lazy", place], check=True)


@pytest.fixture
def small():
    """A daemon whose state lies on a file system of 32 MiB."""
    with daemon_on("size=32m") as daemon:
        yield daemon


@pytest.fixture
def unguarded():
    """The same without a reserve: work that does not fit is begun, and undone."""
    with daemon_on("size=32m", {"disk": {"reserve_bytes": 0, "reserve_inodes": 0, "snapshot_bytes": 0}}) as daemon:
        yield daemon


@pytest.fixture
def few_inodes():
    """A daemon whose file system has room for 4,000 files and directories."""
    with daemon_on("size=256m,nr_inodes=4000") as daemon:
        yield daemon


def load(daemon, name, *layers):
    return daemon.client.post("/v1/images/load", content=docker_archive(name, list(layers)))


def test_an_image_that_does_not_fit(small):
    refused = load(small, "large:1", busybox_layer(), tar({"noise": os.urandom(33 * MIB)}))
    assert refused.status_code == 503 and "no space left" in refused.json()["message"].lower(), refused.text
    assert small.client.get("/v1/images").json()["images"] == []
    small.client.post("/v1/images/collect")
    assert os.listdir(small.state / "images" / "layers") == []
    assert os.listdir(small.state / "images" / "tmp") == []
    assert load(small, "little:1", busybox_layer()).status_code == 200
    assert small.create("little", image="little:1", entrypoint=["sleep", "1000"]).output("echo fits") == "fits"


def test_a_sandbox_that_fills_the_disk(small):
    filler = small.create("filler")
    neighbour = small.create("neighbour")
    code, text = filler.run("head -c 100M /dev/zero > /root/file")
    assert code != 0 and "No space left" in text
    filler.run("for i in $(seq 2000); do echo x > /root/$i || break; done 2> /dev/null")
    # It lives, and the daemon knows and says what goes on.
    assert filler.output("echo alive") == "alive"
    assert small.client.get("/v1/sandboxes/filler/stats").json()["disk_bytes"] > 20 * MIB
    status, problem = small.refused(id="late")
    assert (status, problem["code"]) == (429, "NATIVE::DISK_LOW") and "no space left" in problem["message"], problem
    assert small.traces("late") == []
    snapshot = small.client.post("/v1/sandboxes/filler/snapshots", json={"id": "00000000-0000-4000-8000-000000000001"})
    assert (snapshot.status_code, snapshot.json()["code"]) == (429, "NATIVE::DISK_LOW"), snapshot.text
    assert small.client.get("/v1/snapshots").json()["snapshots"] == []
    assert filler.inspect()["state"] == "running"
    assert neighbour.output("echo unharmed") == "unharmed"
    filler.output("rm /root/file")
    assert small.create("after").output("echo room > /root/file; cat /root/file") == "room"


def test_a_background_command_keeps_its_output_on_a_full_disk(small):
    sandbox = small.create("talker")
    # Its log begins on the disk and goes on when nothing fits there any more.
    started = sandbox.events("echo before; cat /dev/zero > /root/file 2> /dev/null; seq 20000; echo end", background=True)
    id = started[0]["text"]
    assert '"execution_complete"' in sandbox.execd.get(f"/command/{id}/events").text
    wanted = ["before", *map(str, range(1, 20001)), "end"]
    assert sandbox.execd.get(f"/command/{id}/logs").text.split("\n")[:-1] == wanted
    # Another one begins when it is full.
    id = sandbox.events("seq 20000", background=True)[0]["text"]
    assert '"execution_complete"' in sandbox.execd.get(f"/command/{id}/events").text
    assert sandbox.execd.get(f"/command/{id}/logs").text.split("\n")[:-1] == wanted[1:-1]


def test_without_a_reserve_half_made_work_is_undone(unguarded):
    filler = unguarded.create("filler")
    filler.run("head -c 100M /dev/zero > /root/file; for i in $(seq 2000); do echo x > /root/$i || break; done 2> /dev/null")
    status, problem = unguarded.refused(id="late")
    assert status >= 500 and "no space left" in problem["message"].lower(), problem
    assert unguarded.traces("late") == []
    snapshot = unguarded.client.post("/v1/sandboxes/filler/snapshots", json={"id": "00000000-0000-4000-8000-000000000001"})
    assert snapshot.status_code >= 500 and "no space left" in snapshot.json()["message"].lower(), snapshot.text
    assert unguarded.client.get("/v1/snapshots").json()["snapshots"] == []
    assert filler.output("echo alive") == "alive"


def assert_low(response):
    assert response.status_code == 429, response.text
    assert response.json()["code"] == "NATIVE::DISK_LOW" and "no space left for new work" in response.json()["message"]


def test_below_the_reserve_new_work_is_refused_and_running_work_goes_on(small):
    filler, neighbour = small.create("filler"), small.create("neighbour")
    # A twentieth of 32 MiB is kept free: one MiB less than that is left.
    free = int(filler.output("df --output=avail -k / | tail -1")) << 10
    filler.output(f"head -c {free - MIB * 6 // 10} /dev/zero > /root/file")
    assert_low(small.client.post("/v1/sandboxes", json={"id": "late", "image": "host"}))
    assert_low(load(small, "late:1", busybox_layer()))
    assert_low(small.client.put("/v1/volumes/late"))
    assert_low(small.client.post("/v1/sandboxes/neighbour/snapshots", json={"id": "00000000-0000-4000-8000-000000000001"}))
    # Neighbours still write, and sandboxes are paused, resumed and removed.
    assert neighbour.output("echo room > /root/file; cat /root/file") == "room"
    assert small.client.post("/v1/sandboxes/neighbour/pause").status_code == 204
    assert small.client.post("/v1/sandboxes/neighbour/resume").status_code == 204
    assert small.client.delete("/v1/sandboxes/filler").status_code == 204
    small.stop()  # its trash is empty
    small.start()
    assert small.create("after").output("echo room") == "room"
    assert small.client.put("/v1/volumes/after").status_code == 201


def test_an_archive_that_reaches_the_reserve_is_refused(small):
    refused = load(small, "large:1", busybox_layer(), tar({"noise": os.urandom(29 * MIB)}))
    assert refused.status_code in (429, 503) and "no space left" in refused.json()["message"].lower(), refused.text
    assert small.client.get("/v1/images").json()["images"] == []
    assert small.create("after").output("echo room > /root/file; cat /root/file") == "room"


def test_directories_that_take_the_inodes_leave_the_reserve(few_inodes):
    filler, neighbour = few_inodes.create("filler"), few_inodes.create("neighbour")
    free = int(filler.output("df --output=iavail / | tail -1"))
    filler.output(f"mkdir /root/many && cd /root/many && seq {free - 100} | xargs mkdir")
    assert_low(few_inodes.client.post("/v1/sandboxes", json={"id": "late", "image": "host"}))
    assert "inodes are free" in few_inodes.refused(id="late")[1]["message"]
    assert_low(few_inodes.client.put("/v1/volumes/late"))
    assert neighbour.output("echo room > /root/file; cat /root/file") == "room"
    assert few_inodes.client.delete("/v1/sandboxes/filler").status_code == 204


def upload(sandbox, path, content, prefix=""):
    parts = [("metadata", (None, f'{{"path": "{path}"}}', "application/json")), ("file", ("file", content))]
    return sandbox.execd.post(prefix + "/files/upload", files=parts)


def assert_upload_refused(response):
    assert response.status_code == 507 and response.json()["code"] == "DISK_LOW", response.text
    assert "the disk is nearly full" in response.json()["message"] and "kept free" in response.json()["message"]


@pytest.mark.parametrize("runtime", ["native", "runsc"])
def test_uploads_stop_before_the_disk_is_full(small, runtime):
    sandbox = small.create("one", runtime=runtime)
    assert upload(sandbox, "/root/small", b"fits").status_code == 200
    free = int(sandbox.output("df --output=avail -k / | tail -1")) << 10
    # A file that reaches the reserve while it is written, then files when the reserve is reached.
    assert_upload_refused(upload(sandbox, "/root/large", bytes(free - MIB // 10)))
    assert sandbox.run("ls /root/large")[0] != 0
    assert upload(sandbox, "/root/small", b"still fits\n").status_code == 200
    sandbox.output(f"head -c {free - MIB * 6 // 10} /dev/zero > /root/file")
    assert_upload_refused(upload(sandbox, "/root/late", b"late"))
    assert_upload_refused(sandbox.execd.post("/directories/archive", params={"path": "/root/tree"}, content=tar({"a": b"x"})))
    assert upload(sandbox, "/dev/shm/other", b"another file system").status_code == 200
    assert sandbox.output("cat /root/small; echo room > /root/own; cat /root/own") == "still fits\nroom"
    sandbox.output("rm /root/file")
    assert upload(sandbox, "/root/late", b"late").status_code == 200


def test_uploads_into_isolated_sessions_stop_too(small):
    sandbox = small.create("one", isolated_sessions=True)
    made = sandbox.execd.post("/v1/isolated/session", json={"workspace": {"path": "/workspace", "mode": "rw"}})
    assert made.status_code == 201, made.text
    files = f"/v1/isolated/session/{made.json()['session_id']}"

    def into_session(path, content):
        return upload(sandbox, path, content, files)

    assert into_session("/workspace/small", b"fits").status_code == 200
    free = int(sandbox.output("df --output=avail -k / | tail -1")) << 10
    sandbox.output(f"head -c {free - MIB * 6 // 10} /dev/zero > /root/file")
    assert_upload_refused(into_session("/workspace/late", b"late"))
    archive = sandbox.execd.post(files + "/directories/archive", params={"path": "/workspace/tree"}, content=tar({"a": b"x"}))
    assert_upload_refused(archive)
    sandbox.output("rm /root/file")
    assert into_session("/workspace/late", b"late").status_code == 200


def test_without_a_reserve_an_upload_may_fill_the_disk(unguarded):
    sandbox = unguarded.create("one")
    free = int(sandbox.output("df --output=avail -k / | tail -1")) << 10
    assert upload(sandbox, "/root/large", bytes(free - MIB // 2)).status_code == 200
