"""Sandboxes of an OCI runtime: gVisor's runsc, as Debian has it. They have what all others have, behind another wall."""

import contextlib
import json
import os
import pathlib
import uuid

import httpx
import pytest

import host_state
from hammer import Hammer
from runsc_checks import SETTINGS, check_nothing_left, wait_for_end
from sandboxd_process import TOKEN_HEADER, Sandboxd
from test_network import connect_through


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Directories that may become images."""
    return tmp_path_factory.mktemp("images")


@pytest.fixture(scope="module")
def daemon(images):
    running = Sandboxd(settings={**SETTINGS, "images": {"allowed_directories": [str(images)]}})
    yield running
    running.close()


def test_commands_run_in_gvisors_kernel(daemon):
    sandbox = daemon.create("kernel", runtime="runsc", env={"COLOUR": "green"}, hostname="wall")
    assert sandbox.status["state"] == "running" and sandbox.status["execd_socket"] == ""
    assert "gVisor" in sandbox.output("dmesg")
    assert sandbox.output("cat /proc/version") != pathlib.Path("/proc/version").read_text().strip()
    assert sandbox.output("id -u; echo $COLOUR; hostname; cat /etc/hostname") == "0\ngreen\nwall\nwall"
    assert sandbox.output("python3 -c 'print(6*7)'") == "42"
    assert daemon.create("ours").output("cat /proc/version") == pathlib.Path("/proc/version").read_text().strip()


def test_only_execd_and_its_counters_are_seen_and_cannot_be_changed(daemon):
    sandbox = daemon.create("execd", runtime="runsc", limits={"memory_bytes": 256 << 20})
    listing = "python3 -c 'import os, sys; print(*sorted(os.listdir(sys.argv[1])))'"
    assert sandbox.output(f"{listing} /opt/opensandbox") == "cgroup execd exit"
    counters = sandbox.output(f"{listing} /opt/opensandbox/cgroup").split()
    assert "cpu.stat" in counters and "memory.stat" in counters
    assert not [name for name in counters if name.startswith("cgroup.") or name == "tasks"], "pids of the host"
    for name in counters:
        assert sandbox.run(f"echo 1000000000 > /opt/opensandbox/cgroup/{name}")[0] != 0
    assert sandbox.run("rm /opt/opensandbox/cgroup/cpu.stat")[0] != 0
    code, text = sandbox.run("echo x > /opt/opensandbox/execd")
    assert code != 0 and "Read-only" in text
    assert sandbox.run("rm /opt/opensandbox/execd")[0] != 0


def test_files_are_in_the_sandboxes_own_layer_and_belong_to_its_ids(daemon):
    sandbox = daemon.create("files", runtime="runsc")
    upload = {"metadata": ("metadata", json.dumps({"path": "/root/up", "mode": 640})), "file": ("file", b"content")}
    response = sandbox.execd.post("/files/upload", files=upload)
    assert response.status_code == 200, response.text
    assert sandbox.execd.get("/files/download", params={"path": "/root/up"}).content == b"content"
    sandbox.output("echo temporary > /tmp/file; echo lib > /usr/lib/kept; chown 1000:1000 /tmp/file")
    upper = daemon.state / "sandboxes" / "files" / "upper"
    assert (upper / "root" / "up").read_bytes() == b"content"
    assert (upper / "usr" / "lib" / "kept").read_text() == "lib\n"
    assert (upper / "tmp" / "file").read_text() == "temporary\n"
    owners = [os.stat(upper / name).st_uid for name in ("root/up", "tmp/file")]
    assert owners == [0, 1000]


def test_another_user_and_a_directory_that_is_missing(daemon):
    sandbox = daemon.create("user", runtime="runsc", user="1000:1000", cwd="/made/for/it")
    assert sandbox.output("id -u; id -g; pwd") == "1000\n1000\n/made/for/it"
    assert sandbox.run("touch /root/file")[0] != 0
    assert sandbox.output("grep CapEff /proc/self/status").split()[1] == "0000000000000000"


def test_an_image_of_one_program(daemon, images):
    root = images / "root"
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "busybox").write_bytes(pathlib.Path("/bin/busybox").read_bytes())
    (root / "bin" / "busybox").chmod(0o755)
    for name in ("sh", "sleep", "echo", "ls"):
        (root / "bin" / name).symlink_to("busybox")
    assert daemon.client.post("/v1/images/add-directory", params={"path": str(root), "name": "mine:1"}).is_success
    sandbox = daemon.create("mine", image="mine:1", runtime="runsc", entrypoint=["sleep", "1000"])
    assert sandbox.output("echo works; ls /bin") == "works\nbusybox\necho\nls\nsh\nsleep"


def test_its_ports_are_reached_by_address_host_port_and_socket(daemon):
    sandbox = daemon.create("ports", runtime="runsc", ports=[{"port": 44772}])
    headers = {TOKEN_HEADER: sandbox.status["execd_token"]}
    port = sandbox.status["ports"][0]["host_port"]
    for host in (f"{sandbox.status['address']}:44772", f"127.0.0.1:{port}"):
        assert httpx.get(f"http://{host}/ping", headers=headers, trust_env=False, timeout=10).status_code == 200
        assert httpx.get(f"http://{host}/ping", trust_env=False, timeout=10).status_code == 401
    with connect_through(daemon, "ports", 44772) as connection:
        connection.sendall(f"GET /ping HTTP/1.1\r\nHost: x\r\n{TOKEN_HEADER}: {headers[TOKEN_HEADER]}\r\n\r\n".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 200 ")
    assert connect_through(daemon, "ports", 9)[0] == 503


def test_it_reaches_the_host_no_better_than_others(daemon):
    sandbox = daemon.create("reach", runtime="runsc")
    neighbour = daemon.create("neighbour")
    script = ("import socket,sys\n"
              "for host in sys.argv[1:]:\n"
              "    try: socket.create_connection((host, 44772), 1); print('open')\n"
              "    except OSError: print('closed')\n")
    addresses = [neighbour.status["address"], "10.95.0.1", "127.0.0.1"]
    sandbox.output(f"cat > /root/reach.py <<'EOF'\n{script}EOF")
    assert sandbox.output(f"python3 /root/reach.py {' '.join(addresses)}") == "closed\nclosed\nopen"


def test_a_paused_one_stands_still(daemon):
    sandbox = daemon.create("pause", runtime="runsc")
    assert sandbox.execd.get("/ping").status_code == 200
    assert daemon.client.post("/v1/sandboxes/pause/pause").status_code == 204
    assert sandbox.inspect()["state"] == "paused"
    with pytest.raises(httpx.ConnectError):
        sandbox.execd.get("/ping")  # its connection was closed; the host refuses a new one
    assert daemon.client.post("/v1/sandboxes/pause/resume").status_code == 204
    assert sandbox.output("echo again") == "again"


def test_its_address_refuses_when_it_is_removed_or_has_ended(daemon):
    for i in range(3):
        sandbox = daemon.create(f"removed-{i}", runtime="runsc")
        hammer = Hammer(sandbox.status["address"])
        sandbox.remove()
        assert "ConnectionRefusedError" in hammer.finish()
        sandbox = daemon.create(f"ended-{i}", runtime="runsc", entrypoint=["sleep", "1000"])
        hammer = Hammer(sandbox.status["address"])
        with contextlib.suppress(httpx.HTTPError, AssertionError):
            sandbox.output("kill -9 $(pidof sleep)")  # its answer may be cut off
        daemon.wait_for_end(sandbox.id)
        assert "ConnectionRefusedError" in hammer.finish()


@pytest.mark.parametrize("script, exit, reason", [
    ("exit 7", {"code": 7, "signal": 0, "out_of_memory": False}, "EXITED"),
    ("kill -9 $$", {"code": 137, "signal": 9, "out_of_memory": False}, "SIGNALLED"),
])
def test_its_end_is_that_of_the_entrypoint(daemon, script, exit, reason):
    daemon.create("end", runtime="runsc", entrypoint=["sh", "-c", f"echo said; {script}"])
    status = wait_for_end(daemon, "end")
    assert status["exit"] == exit and status["reason"] == reason
    assert daemon.client.get("/v1/sandboxes/end/logs").text == "said\n"
    assert host_state.names(daemon.run / "oci") == set()


def test_memory_is_limited_and_the_end_is_named(daemon):
    sandbox = daemon.create("memory", runtime="runsc", limits={"memory_bytes": 256 << 20})
    stats = daemon.client.get("/v1/sandboxes/memory/stats").json()
    assert stats["memory_limit_bytes"] == 256 << 20 and 0 < stats["memory_bytes"] <= 256 << 20 and stats["pids"] > 1
    with pytest.raises(httpx.TransportError):
        sandbox.run("python3 -c 'x = bytearray(600 << 20)'")
    status = wait_for_end(daemon, "memory")
    assert status["reason"] == "OUT_OF_MEMORY", status


def test_volumes_and_a_read_only_root(daemon):
    volumes = [{"kind": "named", "source": "shared", "target": "/data", "create": True, "delete_with_sandbox": True},
               {"kind": "tmpfs", "target": "/scratch", "size_bytes": 1 << 20}]
    sandbox = daemon.create("volumes", runtime="runsc", volumes=volumes, read_only_root=True)
    assert sandbox.output("echo kept > /data/file; echo x > /scratch/file; cat /data/file") == "kept"
    assert (daemon.state / "volumes" / "shared" / "file").read_text() == "kept\n"
    assert sandbox.run("touch /root/file")[0] != 0
    assert sandbox.run("dd if=/dev/zero of=/scratch/large bs=1M count=2")[0] != 0
    sandbox.remove()
    assert not (daemon.state / "volumes" / "shared").exists()


def test_a_snapshot_of_one_that_runs_holds_all_of_it(daemon):
    sandbox = daemon.create("origin", runtime="runsc")
    sandbox.output("rm /etc/timezone; mkdir /srv/dir; echo one > /srv/dir/file; echo two > /tmp/file; "
                   "echo three > /usr/file")
    id = str(uuid.uuid4())
    made = daemon.client.post("/v1/sandboxes/origin/snapshots", json={"id": id})
    assert made.status_code == 201, made.text
    assert sandbox.output("echo goes on") == "goes on"
    # The interface of a native sandbox may be kept for the next one, and check_nothing_left() would count it.
    for name, runtime, network in (("in-gvisor", "runsc", "bridge"), ("in-ours", "native", "none")):
        copy = daemon.create(name, image="", snapshot=id, runtime=runtime, network=network)
        assert copy.output("cat /srv/dir/file /tmp/file /usr/file") == "one\ntwo\nthree"
        assert copy.run("test -e /etc/timezone")[0] != 0
    daemon.remove_all()
    assert daemon.client.delete(f"/v1/snapshots/{id}").status_code == 204


def test_nothing_is_left_after_remove(daemon):
    for n in range(3):
        daemon.create(f"gone-{n}", runtime="runsc", ports=[{"port": 80}])
    for n in range(3):
        assert daemon.client.delete(f"/v1/sandboxes/gone-{n}").status_code == 204
    check_nothing_left(daemon)


def test_refusals_name_the_wrong_field(daemon):
    status, problem = daemon.refused(id="what", runtime="gvisor")
    assert status == 400 and "'gvisor'" in problem["message"] and "native, runsc" in problem["message"]
    status, problem = daemon.refused(id="what", runtime="runsc", limits={"memory_bytes": 8 << 20})
    assert status == 400 and "/limits/memory_bytes" in problem["message"] and "runsc" in problem["message"], problem
    status, problem = daemon.refused(id="what", runtime="runsc", network="none")
    assert status == 501 and "bridge" in problem["message"], problem
    check_nothing_left(daemon)
