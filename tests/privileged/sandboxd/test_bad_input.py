"""Requests that cannot be met: an error of the right kind that names the thing, and nothing left of the attempt."""

import json
import os
import pathlib
import subprocess
import uuid

import pytest

from sandboxd_process import Sandboxd, binary

ADDRESSES = 5


@pytest.fixture(scope="module")
def daemon():
    """So few addresses and id ranges that a lost one shows."""
    running = Sandboxd(settings={"network": {"subnet": "10.90.0.0/29", "ready_slots": 1}})
    yield running
    running.close()


@pytest.fixture(scope="module", autouse=True)
def nothing_lost(daemon):
    """After all that was refused in this file every address is still there, and every directory is empty."""
    yield
    for i in range(ADDRESSES):
        daemon.create(f"all-{i}")
    daemon.remove_all()
    assert os.listdir(daemon.state / "sandboxes") == []
    assert os.listdir(daemon.run / "execd") == []
    assert os.listdir(daemon.state / "volumes") in ([], [".tmp"])
    for pattern in ("", "*/"):
        for parent in pathlib.Path("/sys/fs/cgroup").glob(pattern + daemon.cgroup_parent):
            assert [each.name for each in parent.iterdir() if each.is_dir()] == []


#  The wrong field, the status, the text that the message contains.
REFUSED = [
    ({"id": "UPPER"}, 400, "/id"),
    ({"id": ""}, 400, "/id"),
    ({"id": "../escape"}, 400, "/id"),
    ({"id": "a/b"}, 400, "/id"),
    ({"id": "-a"}, 400, "/id"),
    ({"id": "a" * 65}, 400, "/id"),
    ({"id": "a\0b"}, 400, "/id"),
    ({"id": 5}, 400, "/id"),
    ({"id": None}, 400, "/id"),
    ({"image": "host", "snapshot": str(uuid.UUID(int=1))}, 400, "exactly one of image and snapshot"),
    ({"image": ""}, 400, "exactly one of image and snapshot"),
    ({"image": "", "snapshot": str(uuid.UUID(int=1))}, 404, str(uuid.UUID(int=1))),
    ({"image": "", "snapshot": "../../etc"}, 400, "/snapshot"),
    ({"image": "host:latest@sha256:abc"}, 400, "host:latest@sha256:abc"),
    ({"network": "bridged"}, 400, "/network"),
    ({"network": "host"}, 403, "allow_host_network"),
    ({"network": "none", "ports": [{"port": 80}]}, 400, "/ports"),
    ({"ports": [{"port": 0}]}, 400, "/ports/0/port"),
    ({"ports": [{"port": 65536}]}, 400, "/ports/0/port"),
    ({"ports": [{"port": 80, "protocol": "sctp"}]}, 400, "/ports/0/protocol"),
    ({"ports": [{"port": 80, "host_port": 7001}, {"port": 81, "host_port": 7001}]}, 409, "7001"),
    ({"dns": ["not an address"]}, 400, "/dns"),
    ({"dns": ["::1"]}, 400, "/dns"),
    ({"hostname": "two words"}, 400, "/hostname"),
    ({"hostname": "line\nbreak"}, 400, "/hostname"),
    ({"hostname": "h" * 65}, 400, "/hostname"),
    ({"limits": {"memory_bytes": 1}}, 400, "memory"),
    ({"limits": {"memory_bytes": -1}}, 400, "/limits/memory_bytes"),
    ({"limits": {"memory_bytes": "1Gi"}}, 400, "/limits/memory_bytes"),
    ({"limits": {"cpu_millis": 0}}, 400, "cpu"),
    ({"limits": {"cpu_millis": 1 << 62}}, 400, "cpu"),
    ({"limits": {"pids": 1}}, 400, "pids"),
    ({"limits": {"pids": 1 << 40}}, 400, "pids"),
    ({"limits": {"shm_bytes": 0}}, 400, "shm_bytes"),
    ({"limits": {"io_bytes_per_second": 0}}, 400, "io"),
    ({"limits": {"disk_bytes": 1 << 20}}, 501, "disk_bytes"),
    ({"ulimits": {"nofile": 0}}, 400, "/ulimits/nofile"),
    ({"ulimits": {"nofile": 1 << 40}}, 400, "fs.nr_open"),
    ({"ulimits": {"as": 4096}}, 400, "/ulimits/as"),
    ({"ulimits": {"colour": 1}}, 400, "/ulimits/colour"),
    ({"user": "nobody-here"}, 400, "nobody-here"),
    ({"user": "70000"}, 400, "70000"),
    ({"user": "0:nogroup-here"}, 400, "nogroup-here"),
    ({"cwd": "relative"}, 400, "relative"),
    ({"cwd": "/etc/passwd"}, 500, "/etc/passwd"),
    ({"env": {"A=B": "x"}}, 400, "/env"),
    ({"env": {"A": "x\0y"}}, 400, "/env"),
    ({"entrypoint": ["sh", "-c", "a\0b"]}, 400, "/entrypoint"),
    ({"entrypoint": "sh"}, 400, "/entrypoint"),
    ({"platform": "linux/s390x"}, 501, "linux/s390x"),
    ({"runtime": "no-such-runtime"}, 400, "no-such-runtime"),
    ({"gpus": "99"}, 501, "gpus"),
    ({"gpus": "some"}, 400, "/gpus"),
    ({"volumes": [{"kind": "odd", "target": "/x"}]}, 400, "/volumes/0/kind"),
    ({"volumes": [{"kind": "tmpfs", "target": "/etc/passwd"}]}, 500, "/etc/passwd"),
    ({"volumes": [{"kind": "tmpfs", "target": "/x/../y"}]}, 400, "/x/../y"),
    ({"volumes": [{"kind": "host", "source": "/etc", "target": "/x"}]}, 400, "/etc"),
    ({"volumes": [{"kind": "named", "source": "absent", "target": "/x"}]}, 404, "absent"),
    ({"volumes": [{"kind": "named", "source": "made", "target": "/x", "create": True},
                  {"kind": "tmpfs", "target": "/etc/passwd"}]}, 500, "/etc/passwd"),
    ({"volumes": [{"kind": "tmpfs", "target": "/" + "n" * 300}]}, 500, "n" * 200),
    ({"volumes": {}}, 400, "/volumes"),
    ({"labels": {"a": 1}}, 400, "/labels/a"),
]


@pytest.mark.parametrize("fields, status, named", REFUSED, ids=lambda value: json.dumps(value)[:60])
def test_is_refused_by_name_and_leaves_nothing(daemon, fields, status, named):
    got, problem = daemon.refused(**{"id": "refused", **fields})
    assert got == status, problem
    assert named in problem["message"], problem
    assert problem["code"].split("::")[0] in ("NATIVE", "VOLUME", "SNAPSHOT", "SANDBOX"), problem
    assert daemon.traces("refused") == []
    assert daemon.client.get("/v1/volumes").json()["volumes"] == []


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'{"id": "a"', b'"text"', b"\xff\xfe", b"[" * 100_000,
                                  b'{"id":"a","image":"host","id":"b",' + b" " * 100])
def test_bodies_that_are_no_request(daemon, body):
    response = daemon.client.post("/v1/sandboxes", content=body)
    assert response.status_code == 400, response.text
    assert response.json()["message"]


def test_a_body_that_is_too_large(daemon):
    response = daemon.client.post("/v1/sandboxes", content=b'{"id": "' + b"a" * (5 << 20) + b'"}')
    assert response.status_code == 413, response.text


def test_an_id_is_taken_once(daemon):
    first = daemon.create("taken")
    status, problem = daemon.refused(id="taken")
    assert status == 409 and "taken" in problem["message"]
    assert first.output("echo unharmed") == "unharmed"


def test_unknown_things_are_named(daemon):
    client = daemon.client
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/pause"), ("POST", "/resume"), ("GET", "/stats"),
                         ("GET", "/logs"), ("POST", "/connect/80")):
        response = client.request(method, f"/v1/sandboxes/nobody{path}")
        assert response.status_code == 404 and "nobody" in response.json()["message"], path
    for path in ("/v1/snapshots/nothing", "/v1/nothing", "/v1/sandboxes/a/b/c"):
        assert client.get(path).status_code == 404
    assert client.put("/v1/sandboxes").status_code == 405
    assert client.get("/v1/sandboxes/..%2f..%2fetc").status_code == 404


def test_operations_that_an_ended_sandbox_refuses(daemon):
    daemon.create("ended", entrypoint=["true"])
    daemon.wait_for_end("ended")
    for method, path in (("POST", "/pause"), ("POST", "/resume"), ("GET", "/stats"), ("POST", "/connect/80")):
        response = daemon.client.request(method, f"/v1/sandboxes/ended{path}")
        assert response.status_code == 409 and "ended" in response.json()["message"], response.text


def test_when_no_address_is_left(daemon):
    made = [daemon.create(f"full-{i}") for i in range(ADDRESSES)]
    assert len({sandbox.status["address"] for sandbox in made}) == ADDRESSES
    for _ in range(3):
        status, problem = daemon.refused(id="refused")
        assert status == 503 and "10.90.0.0/29" in problem["message"], problem
        assert daemon.traces("refused") == []
    made[0].remove()
    assert daemon.create("again").output("echo room") == "room"


def test_an_entrypoint_that_does_not_exist(daemon):
    """The sandbox was made; its program ended at once, as a shell would tell it."""
    daemon.create("lost", entrypoint=["/no/such/program"])
    status = daemon.wait_for_end("lost")
    assert status["exit"]["code"] == 127 and status["reason"] == "EXITED"
    assert "/no/such/program" in status["message"]


@pytest.mark.parametrize("settings, named", [
    ({"network": {"subnet": "10.90.0.1/16"}}, "subnet"),
    ({"network": {"subnet": "10.90.0.0/32"}}, "subnet"),
    ({"network": {"subnets": "10.90.0.0/16"}}, "subnets"),
    ({"sandbox": {"default_pids": 1}}, "default_pids"),
    ({"sandbox": {"allowed_host_paths": ["relative"]}}, "relative"),
    ({"images": {"keep_bytes": "many"}}, "keep_bytes"),
    ({"imagez": {"keep_bytes": 1}}, "imagez"),
    ({"daemon": {"log_level": "loud"}}, "log_level"),
], ids=lambda value: json.dumps(value))
def test_settings_that_make_no_sense_stop_the_daemon(settings, named, tmp_path):
    config = tmp_path / "sandboxd.toml"
    config.write_text("\n".join(f"[{section}]\n{key} = {json.dumps(value)}" for section, keys in settings.items()
                                for key, value in keys.items()))
    ended = subprocess.run([binary("sandboxd"), "--config", str(config), "--state-dir", str(tmp_path / "state"),
                            "--run-dir", str(tmp_path / "run")], capture_output=True, text=True, timeout=30)
    assert ended.returncode == 1
    assert len(ended.stderr.splitlines()) == 1, ended.stderr
    assert ended.stderr.startswith("sandboxd: ") and named in ended.stderr
    assert not (tmp_path / "state").exists()
