"""A disk that is full: errors say so, nothing half-made stays, and removing something helps."""

import os
import subprocess
import tempfile

import pytest

from registry import busybox_layer, docker_archive, tar
from sandboxd_process import Sandboxd

MIB = 1 << 20


@pytest.fixture
def small():
    """A daemon whose state lies on a file system of 32 MiB."""
    with tempfile.TemporaryDirectory(prefix="osb-small-") as place:  # short: names of sockets are
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m,mode=711", "small", place], check=True)
        try:
            daemon = Sandboxd(directory=place)
            yield daemon
            daemon.close()
        finally:
            subprocess.run(["umount", "--lazy", place], check=True)


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
    assert status >= 500 and "no space left" in problem["message"].lower(), problem
    assert small.traces("late") == []
    snapshot = small.client.post("/v1/sandboxes/filler/snapshots", json={"id": "00000000-0000-4000-8000-000000000001"})
    assert snapshot.status_code >= 500 and "no space left" in snapshot.json()["message"].lower(), snapshot.text
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
