"""Limits of a sandbox's resources. Every program here that uses up a resource is bounded by that limit, and by a
time."""

import concurrent.futures
import json
import pathlib
import re

import host_state
import pytest

MIB = 1 << 20


def stats(daemon, id):
    return daemon.client.get(f"/v1/sandboxes/{id}/stats").json()


def take_memory(sandbox, mebibytes):
    """How a program ends that takes so much, a piece at a time; 137: it was killed."""
    return sandbox.run(f"timeout 60 python3 -c 'x = [bytearray(1 << 20) for _ in range({mebibytes})]'; exit $?")[0]


def test_a_fork_bomb_is_held(daemon):
    sandbox = daemon.create("bomb", limits={"pids": 64, "memory_bytes": 256 * MIB})
    code, text = sandbox.run("""timeout -s KILL 20 python3 - <<'END'
import errno, os, signal
made = []
try:
    while len(made) < 500:
        child = os.fork()
        if child == 0:
            signal.pause()
        made.append(child)
except OSError as error:
    print(len(made), errno.errorcode[error.errno])
for child in made:
    os.kill(child, signal.SIGKILL)
END""")
    count, error = text.split()
    assert error == "EAGAIN"
    assert 40 < int(count) < 64
    assert sandbox.output("echo after") == "after"


def test_a_full_process_table_does_not_lock_out_the_owner(daemon):
    """execd itself needs no new process to answer, and the bomb goes with the sandbox."""
    sandbox = daemon.create("full", limits={"pids": 32},
                            entrypoint=["timeout", "-s", "KILL", "60", "python3", "-c", """
import os, signal
try:
    while os.fork() or True: pass
except OSError:
    print("full", flush=True)
    signal.pause()
"""])
    neighbour = daemon.create("neighbour")
    # The forked children fork too: all of them end up in pause().
    until(lambda: daemon.client.get("/v1/sandboxes/full/logs").text, "full", neighbour)
    assert sandbox.execd.get("/ping").status_code == 200
    assert stats(daemon, "full")["pids"] <= 32
    assert neighbour.output("echo free") == "free"
    sandbox.remove()


def test_memory_is_limited_and_execd_lives_on(daemon):
    sandbox = daemon.create("hog", limits={"memory_bytes": 96 * MIB})
    assert take_memory(sandbox, 300) == 137
    assert sandbox.output("echo alive") == "alive"
    used = stats(daemon, "hog")
    assert used["memory_limit_bytes"] == 96 * MIB
    assert used["memory_peak_bytes"] <= 96 * MIB
    assert used["oom_kills"] >= 1
    assert sandbox.inspect()["state"] == "running"


def test_swap_is_no_way_around_the_memory_limit(daemon):
    sandbox = daemon.create("swapper", limits={"memory_bytes": 64 * MIB})
    assert take_memory(sandbox, 128) == 137
    assert take_memory(sandbox, 16) == 0


def test_the_reason_of_a_death_by_memory_is_told(daemon):
    daemon.create("dies", limits={"memory_bytes": 64 * MIB},
                  entrypoint=["sh", "-c", "python3 -c 'x = bytearray(200 << 20)'; exit $?"])
    status = daemon.wait_for_end("dies")
    assert (status["reason"], status["exit"]["out_of_memory"], status["exit"]["code"]) == ("OUT_OF_MEMORY", True, 137)
    assert "memory" in status["message"]
    # A death of the same kind without it is not blamed on memory.
    daemon.create("killed", limits={"memory_bytes": 64 * MIB}, entrypoint=["sh", "-c", "kill -9 $$"])
    status = daemon.wait_for_end("killed")
    assert (status["reason"], status["exit"]["out_of_memory"]) == ("SIGNALLED", False)


def test_files_in_shm_count_as_memory(daemon):
    """Nothing is freed when their writer is killed, so that execd may be the next: the reason is the same."""
    daemon.create("shm-hog", limits={"memory_bytes": 64 * MIB, "shm_bytes": 512 * MIB},
                  entrypoint=["sh", "-c", "head -c 200M /dev/zero > /dev/shm/file; exit $?"])
    assert daemon.wait_for_end("shm-hog")["reason"] == "OUT_OF_MEMORY"


def cpu_periods(daemon, id):
    """How many periods of its quota the cgroup has been busy in."""
    for mount in host_state.cgroup_mounts():
        counts = pathlib.Path(mount) / daemon.cgroup_parent / id / "cpu.stat"
        found = re.search(r"^nr_periods (\d+)$", counts.read_text(), re.MULTILINE) if counts.exists() else None
        if found:
            return int(found[1])
    return 0


def test_cpu_is_limited_with_any_number_of_processes(daemon):
    sandbox = daemon.create("busy", limits={"cpu_millis": 200})
    sandbox.output("""python3 - <<'END'
import os, time
for _ in range(3):
    if os.fork() == 0:
        while time.process_time() < 0.2: pass
        os._exit(0)
for _ in range(3): os.wait()
END""")
    used = stats(daemon, "busy")["cpu_usec"]
    periods = cpu_periods(daemon, "busy")
    assert used >= 600_000
    # 20 ms in each period of 100 ms, and parts of it that a processor took and has not used up.
    assert used <= 20_000 * 1.25 * (periods + 2), (used, periods)


def test_shm_has_the_size_asked_for(daemon):
    sandbox = daemon.create("shm", limits={"shm_bytes": 4 * MIB})
    assert sandbox.output("df --output=size -B1 /dev/shm | tail -1").strip() == str(4 * MIB)
    code, text = sandbox.run("head -c 5M /dev/zero > /dev/shm/file")
    assert code != 0 and "No space left" in text
    assert daemon.create("default").output("df --output=size -B1 /dev/shm | tail -1").strip() == str(64 * MIB)


def test_dev_cannot_be_filled(daemon):
    """It is memory of the host that belongs to no limit of its own."""
    sandbox = daemon.create("dev", limits={"memory_bytes": 256 * MIB})
    code, text = sandbox.run("head -c 64M /dev/zero > /dev/file")
    assert code != 0 and "No space left" in text


def test_ulimits(daemon):
    sandbox = daemon.create("ulimits", ulimits={"nofile": 77, "core": 0, "fsize": 1 * MIB})
    assert sandbox.output("ulimit -Sn; ulimit -Hn; ulimit -Hc").split() == ["77", "77", "0"]
    assert sandbox.run("head -c 2M /dev/zero > /tmp/file")[0] != 0
    assert sandbox.output("stat -c %s /tmp/file") == str(MIB)
    assert sandbox.run("ulimit -n 78")[0] != 0


def test_a_read_only_root(daemon):
    sandbox = daemon.create("fixed", read_only_root=True,
                            volumes=[{"kind": "tmpfs", "target": "/extra", "size_bytes": MIB}])
    for path in ("/file", "/usr/file", "/etc/file", "/root/file"):
        code, text = sandbox.run(f"touch {path}")
        assert code != 0 and "Read-only file system" in text, path
    assert sandbox.output("echo kept > /extra/file; echo > /dev/null; cat /extra/file") == "kept"
    assert sandbox.run("mount -o remount,rw /")[0] != 0


def test_a_tmpfs_has_its_size(daemon):
    sandbox = daemon.create("tmpfs", volumes=[{"kind": "tmpfs", "target": "/extra", "size_bytes": 2 * MIB},
                                              {"kind": "tmpfs", "target": "/more"}])
    assert sandbox.output("df --output=size -B1 /extra | tail -1").strip() == str(2 * MIB)
    code, text = sandbox.run("head -c 3M /dev/zero > /extra/file")
    assert code != 0 and "No space left" in text
    assert int(sandbox.output("df --output=size -B1 /more | tail -1")) == 64 * MIB


def test_written_bytes_are_counted(daemon):
    sandbox = daemon.create("writer")
    before = stats(daemon, "writer")["disk_bytes"]
    sandbox.output("head -c 8M /dev/urandom > /root/file; ln /root/file /root/same; sync /root/file")
    assert 8 * MIB <= stats(daemon, "writer")["disk_bytes"] - before < 9 * MIB


def test_a_disk_limit_that_cannot_be_kept_is_refused(daemon):
    response = daemon.client.post("/v1/sandboxes", json={"id": "disk", "image": "host",
                                                         "limits": {"disk_bytes": 16 * MIB}})
    assert response.status_code == 501, response.text
    assert "disk_bytes" in response.json()["message"] and "sandboxd check" in response.json()["message"]
    assert not (daemon.state / "sandboxes" / "disk").exists()


def test_limits_hold_for_a_restarted_daemon(make_daemon):
    daemon = make_daemon()
    sandbox = daemon.create("kept", limits={"memory_bytes": 64 * MIB, "pids": 40})
    daemon.kill()
    daemon.start()
    assert stats(daemon, "kept")["memory_limit_bytes"] == 64 * MIB
    assert take_memory(sandbox, 200) == 137


def test_many_at_once_keep_their_own_limits(daemon):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        sizes = [32 + 8 * i for i in range(8)]
        list(pool.map(lambda size: daemon.create(f"many-{size}", limits={"memory_bytes": size * MIB}), sizes))
    assert {size: stats(daemon, f"many-{size}")["memory_limit_bytes"] // MIB for size in sizes} == {
        size: size for size in sizes}


@pytest.fixture(autouse=True)
def no_hog_outlives_its_test(daemon):
    yield
    daemon.remove_all()


def until(read, wanted, sandbox):
    """Asks again each time a command has run elsewhere: as long as a full machine needs, and no longer."""
    for _ in range(400):
        if wanted in read():
            return
        sandbox.output("python3 -c 'import time; time.sleep(0.05)'")
    raise AssertionError(json.dumps(read()))
