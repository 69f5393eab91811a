"""Sandboxes of an OCI runtime and daemons that end, are killed, or are configured in other ways."""

import httpx
import pytest

from runsc_checks import SETTINGS, check_nothing_left, wait_for_end
from sandboxd_process import Sandbox


def test_they_outlive_the_daemon(make_daemon):
    daemon = make_daemon(settings=SETTINGS)
    sandbox = daemon.create("kept", runtime="runsc", ports=[{"port": 44772}])
    paused = daemon.create("paused", runtime="runsc")
    ending = daemon.create("ending", runtime="runsc", entrypoint=["sh", "-c", "mkfifo /root/go; read x < /root/go; exit 5"])
    assert daemon.client.post("/v1/sandboxes/paused/pause").status_code == 204
    sandbox.output("echo kept > /root/file")
    daemon.kill()
    assert sandbox.output("cat /root/file") == "kept"
    ending.output("echo > /root/go")
    daemon.start()
    assert wait_for_end(daemon, "ending")["exit"]["code"] == 5
    assert {each["id"]: each["state"] for each in daemon.list()} == {
        "kept": "running", "paused": "paused", "ending": "exited"}
    assert sandbox.output("cat /root/file") == "kept"
    port = sandbox.inspect()["ports"][0]["host_port"]
    assert httpx.get(f"http://127.0.0.1:{port}/ping", trust_env=False, timeout=10).status_code == 401
    assert daemon.client.post("/v1/sandboxes/paused/resume").status_code == 204
    assert paused.output("echo again") == "again"
    daemon.remove_all()
    check_nothing_left(daemon)


@pytest.mark.parametrize("step", ["cgroup", "launched", "started"])
def test_a_daemon_that_ends_in_a_create_leaves_nothing_or_all(make_daemon, step):
    daemon = make_daemon(settings=SETTINGS, env={"SANDBOXD_FAULT": step})
    with pytest.raises(httpx.TransportError):
        daemon.create("half", runtime="runsc")
    assert daemon.process.wait(30) == 137
    daemon.client.close()
    daemon.env.clear()
    daemon.start()
    if step == "started":
        half = Sandbox(daemon, daemon.client.get("/v1/sandboxes/half").json())
        assert daemon.client.get("/v1/sandboxes/half").json()["state"] == "running"
        half.remove()
    check_nothing_left(daemon)


def test_it_can_be_the_default(make_daemon):
    daemon = make_daemon(settings={**SETTINGS, "sandbox": {"default_runtime": "walled"},
                                   "runtimes": {"walled": ["/usr/bin/runsc", "--platform=ptrace"]}})
    assert "gVisor" in daemon.create("default").output("dmesg")
    assert daemon.create("native", runtime="native").output("cat /proc/version").startswith("Linux version")
    daemon.remove_all()


def test_a_runtime_that_fails_says_why_and_leaves_nothing(make_daemon):
    daemon = make_daemon(settings={**SETTINGS, "runtimes": {"runsc": ["/usr/bin/runsc", "--platform=nonsense"],
                                                            "missing": "/nowhere/runtime"}})
    status, problem = daemon.refused(id="fails", runtime="runsc")
    assert status == 500 and "nonsense" in problem["message"], problem
    status, problem = daemon.refused(id="fails", runtime="missing")
    assert status >= 400 and "/nowhere/runtime" in problem["message"], problem
    check_nothing_left(daemon)
