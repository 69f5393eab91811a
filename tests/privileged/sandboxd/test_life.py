"""A sandbox from its first to its last moment, through sandboxd's socket."""

import contextlib
import datetime
import json
import os

import pytest


def test_runs_a_command_in_the_hosts_userland(daemon):
    sandbox = daemon.create("life-1")
    assert sandbox.status["state"] == "running"
    assert sandbox.output("id -u; echo hello") == "0\nhello"
    assert sandbox.output("python3 -c 'print(6*7)'") == "42"


def test_is_known_by_its_id_and_gone_after_remove(daemon):
    sandbox = daemon.create("life-2", labels={"a": "b"})
    assert sandbox.inspect()["labels"] == {"a": "b"}
    assert daemon.client.post("/v1/sandboxes", json={"id": "life-2", "image": "host"}).status_code == 409
    sandbox.remove()
    assert sandbox.inspect() is None
    assert daemon.client.delete("/v1/sandboxes/life-2").status_code == 404
    assert not (daemon.state / "sandboxes" / "life-2").exists()
    assert not (daemon.run / "execd" / "life-2.sock").exists()


def test_tells_when_its_first_process_was_started(daemon):
    status = daemon.create("life-started").status
    created, started = (datetime.datetime.fromisoformat(status[name]) for name in ("created_at", "started_at"))
    assert created <= started <= datetime.datetime.now(datetime.UTC)


def test_the_kernel_has_nothing_to_say_about_its_mounts(daemon):
    log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    try:
        os.lseek(log, 0, os.SEEK_END)
        # The first has its root made for it, the second may find one that is ready.
        for name in ("life-quiet-1", "life-quiet-2"):
            daemon.create(name).output("touch /usr/made")
        said = []
        with contextlib.suppress(BlockingIOError):
            while line := os.read(log, 8192):
                said.append(line)
    finally:
        os.close(log)
    assert not [line for line in said if b"overlayfs" in line and b"in-use" in line]


def test_ends_with_its_entrypoint_and_says_how(daemon):
    daemon.create("life-3", entrypoint=["sh", "-c", "read line; exit 7"])
    status = wait_for_end(daemon, "life-3")
    assert status["exit"] == {"code": 7, "signal": 0, "out_of_memory": False}
    assert status["reason"] == "EXITED"
    assert "7" in status["message"]


def test_entrypoint_output_is_its_log(daemon):
    daemon.create("life-4", entrypoint=["sh", "-c", "echo one; echo two >&2; exec sleep 1000"])
    assert daemon.said("life-4", lambda text: "two\n" in text) == "one\ntwo\n"
    assert daemon.client.get("/v1/sandboxes/life-4/logs").text == "one\ntwo\n"


def test_memory_limit_is_enforced_and_named(daemon):
    daemon.create("life-5", entrypoint=["python3", "-c", "x = bytearray(400 << 20)"],
                  limits={"memory_bytes": 64 << 20})
    status = wait_for_end(daemon, "life-5")
    assert status["reason"] == "OUT_OF_MEMORY", status
    assert status["message"] == "out of memory (limit 64 MiB)"
    assert status["exit"]["out_of_memory"]


def test_a_paused_sandbox_stands_still(daemon):
    sandbox = daemon.create("life-6")
    assert daemon.client.post("/v1/sandboxes/life-6/pause").status_code == 204
    assert daemon.client.post("/v1/sandboxes/life-6/pause").status_code == 204
    assert sandbox.inspect()["state"] == "paused"
    with pytest.raises(Exception):
        sandbox.execd.get("/ping", timeout=0.5)
    assert daemon.client.post("/v1/sandboxes/life-6/resume").status_code == 204
    assert sandbox.execd.get("/ping").status_code == 200


def test_sandboxes_outlive_the_daemon(make_daemon):
    daemon = make_daemon()
    sandbox = daemon.create("life-7")
    paused = daemon.create("life-8")
    daemon.client.post("/v1/sandboxes/life-8/pause")
    ending = daemon.create("life-9", entrypoint=["sleep", "1000"])
    sandbox.output("echo kept > /root/file")
    daemon.kill()
    assert sandbox.output("cat /root/file") == "kept"
    assert ending.output("kill -9 $(pidof sleep); echo") is not None
    daemon.start()
    states = {each["id"]: each["state"] for each in daemon.list()}
    assert states["life-7"] == "running" and states["life-8"] == "paused"
    status = wait_for_end(daemon, "life-9")
    assert status["exit"]["signal"] == 9
    assert sandbox.output("cat /root/file") == "kept"
    assert daemon.client.post("/v1/sandboxes/life-8/resume").status_code == 204
    assert paused.output("echo again") == "again"


def test_watchers_see_every_change(daemon):
    with daemon.client.stream("GET", "/v1/events") as stream:
        lines = stream.iter_lines()
        assert json.loads(next(lines)) == {"type": "all", "sandboxes": []}
        sandbox = daemon.create("life-10")
        sandbox.remove()
        seen = []
        for line in lines:
            event = json.loads(line)
            seen.append(event["sandbox"]["state"] if event["type"] == "changed" else event["type"])
            if seen[-1] == "removed":
                break
    assert seen[0] in ("creating", "running") and "running" in seen


def wait_for_end(daemon, id):
    """Follows the events until the sandbox has ended."""
    with daemon.client.stream("GET", "/v1/events") as stream:
        for line in stream.iter_lines():
            event = json.loads(line)
            sandboxes = event.get("sandboxes") or [event.get("sandbox") or {}]
            for sandbox in sandboxes:
                if sandbox.get("id") == id and sandbox["state"] == "exited":
                    return sandbox
    raise AssertionError("the stream of events ended")
