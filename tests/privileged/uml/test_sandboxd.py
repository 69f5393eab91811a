"""sandboxd on a pure cgroup v2 host with an older kernel that has no nftables: everything but a network works. Runs
inside User-Mode Linux (run_in_uml.py), where a command takes ten times as long as outside."""

import httpx
import pytest

import host_state


def test_a_network_is_refused_by_name_of_the_missing_feature(daemon):
    status, problem = daemon.refused(id="bridge", image="busybox")
    assert status == 501
    assert "network mode bridge" in problem["message"] and "nftables" in problem["message"]
    assert "sandboxes get no network" in daemon.log()


@pytest.mark.parametrize("network", ["none", "host"])
def test_runs_commands_in_a_root_of_its_own(daemon, create, network):
    sandbox = create(f"root-{network}", network=network)
    assert sandbox.output("id -u; echo x > /root/file && cat /root/file; cat /proc/self/cgroup; "
                          "stat -f -c %t /sys/fs/cgroup") == "0\nx\n0::/\n63677270"  # cgroup v2


def test_limits(daemon, create):
    sandbox = create("limits", limits={"memory_bytes": 64 << 20, "pids": 24, "cpu_millis": 500})
    sees = "cd /sys/fs/cgroup && cat memory.max pids.max cpu.max"
    assert sandbox.output(sees) == f"{64 << 20}\n24\n50000 100000"
    code, text = sandbox.run("for n in $(seq 40); do sleep 60 & done; wait")
    assert code != 0 and "fork" in text
    stats = daemon.client.get("/v1/sandboxes/limits/stats").json()
    assert stats["memory_limit_bytes"] == 64 << 20 and stats["pids"] <= 24


def test_out_of_memory_is_named(daemon, create):
    create("hog", limits={"memory_bytes": 32 << 20},
                  entrypoint=["dd", "if=/dev/zero", "of=/dev/null", "bs=200M", "count=1"])
    assert daemon.wait_for_end("hog")["reason"] == "OUT_OF_MEMORY"


def test_paused_it_stands_still(daemon, create):
    sandbox = create("still")
    assert daemon.client.post("/v1/sandboxes/still/pause").status_code == 204
    with pytest.raises(httpx.TimeoutException):
        sandbox.execd.get("/ping", timeout=0.5)
    assert daemon.client.post("/v1/sandboxes/still/resume").status_code == 204
    assert sandbox.execd.get("/ping").status_code == 200


def test_a_killed_entrypoint_ends_it(daemon, create):
    sandbox = create("killed", entrypoint=["sleep", "1000"])
    sandbox.run("kill -9 $(pidof sleep)")
    assert daemon.wait_for_end("killed")["exit"]["signal"] == 9


def test_sandboxes_outlive_the_daemon(daemon, create):
    sandbox = create("alive")
    sandbox.output("echo kept > /root/file")
    create("paused")
    assert daemon.client.post("/v1/sandboxes/paused/pause").status_code == 204
    ending = create("ending", entrypoint=["sleep", "1000"])
    daemon.kill()
    ending.run("kill -9 $(pidof sleep)")
    daemon.start()
    assert {each["id"]: each["state"] for each in daemon.list()}["alive"] == "running"
    assert sandbox.output("cat /root/file") == "kept"
    assert daemon.wait_for_end("ending")["exit"]["signal"] == 9
    assert daemon.client.post("/v1/sandboxes/paused/resume").status_code == 204


def test_a_crash_in_the_middle_leaves_nothing(daemon, create):
    daemon.stop()
    daemon.start(env={"SANDBOXD_FAULT": "launched"})
    with pytest.raises(httpx.TransportError):
        create("half")
    assert daemon.process.wait(30) == 137
    daemon.start()
    assert daemon.list() == []
    assert not any(host_state.files(daemon).values())
    assert host_state.cgroups(daemon) == host_state.processes(daemon) == set()
