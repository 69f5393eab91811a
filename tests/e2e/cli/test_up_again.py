"""osb up over the state of an earlier run: nothing is lost, however that run ended."""

import json
import os
import pathlib
import signal
import sqlite3
import uuid

import httpx
import pytest
from registry import busybox_layer


@pytest.fixture(autouse=True)
def nothing_left():
    """Overrides the suite's: here every test has a service of its own."""


class Contents:
    """A sandbox with a file, an image, a snapshot and a volume."""

    def __init__(self, service, tmp_path):
        self.osb = service.osb
        self.volumes = tmp_path / "volumes.json"
        self.volumes.write_text(json.dumps([{"name": "data", "mountPath": "/data", "pvc": {"claimName": "data"}}]))
        self.sandbox = self._create()
        self.osb.ok("command", "run", self.sandbox, "--", "sh", "-c", "echo kept > /tmp/file; echo kept > /data/file")
        self.snapshot = self.osb.json("snapshot", "create", self.sandbox, "--wait")["id"]
        image, = self.osb.json("image", "load", "-", "--name", "mine:1", input=busybox_layer())
        self.image = image["uri"]

    def _create(self):
        return self.osb.json("sandbox", "create", "-i", "host", "--volumes-file", self.volumes)["id"]

    def check_files(self):
        """All but the sandbox."""
        assert self.image in [image["uri"] for image in self.osb.json("image", "ls")]
        restored = self.osb.json("sandbox", "create", "--snapshot-id", self.snapshot)["id"]
        assert self.osb.ok("command", "run", restored, "--", "cat", "/tmp/file") == "kept\n"
        self.osb.ok("sandbox", "kill", restored)
        other = self._create()
        assert self.osb.ok("command", "run", other, "--", "cat", "/data/file") == "kept\n"
        self.osb.ok("sandbox", "kill", other)

    def check(self):
        assert self.osb.json("sandbox", "get", self.sandbox)["status"]["state"] == "Running"
        assert self.osb.ok("command", "run", self.sandbox, "--", "cat", "/tmp/file", "/data/file") == "kept\nkept\n"
        self.check_files()


@pytest.mark.parametrize("dead", [["sandboxd"], ["server"], ["sandboxd", "server"]], ids="+".join)
def test_daemons_that_were_killed_are_started_again(service, tmp_path, dead):
    service.up()
    contents = Contents(service, tmp_path)
    before = service.record
    service.kill(*dead)
    up = service.up()
    assert up["started"] and up["sandboxes_running"] == 1
    after = service.record
    for name in ("sandboxd", "server"):
        assert (after[name] == before[name]) == (name not in dead), "only the dead are started"
    contents.check()


def test_down_keeps_everything(service, tmp_path):
    service.up()
    contents = Contents(service, tmp_path)
    assert service.down() == {"status": "stopped", "directory": str(service.directory), "sandboxes_running": 1}
    assert service.processes() == []
    assert service.down()["status"] == "not running"
    said = service.osb.ok("down", "--dir", service.directory)
    assert "1 sandbox keeps running" in said and "--purge" in said and "osb up" in said
    assert service.up()["api_key"] == service.osb.server.key
    contents.check()


def test_purge_ends_a_sandboxd_that_does_not_move(service):
    """It is asked, waited for, then killed; its sandboxes end and nothing is left."""
    service.up()
    service.osb.json("sandbox", "create", "-i", "host")
    record = service.record
    os.kill(record["sandboxd"]["pid"], signal.SIGSTOP)
    assert service.purge()["status"] == "purged"
    assert service.processes() == [] and service.cgroups(record) == [] and not service.directory.exists()


def test_key_and_port_stay(service):
    up = service.up()
    service.down()
    for name in ("OPEN_SANDBOX_DOMAIN", "OPEN_SANDBOX_API_KEY"):
        del service.osb.env[name]
    again = service.up()
    assert (again["url"], again["api_key"]) == (up["url"], up["api_key"])


def test_after_a_reboot(service, tmp_path):
    service.up()
    contents = Contents(service, tmp_path)
    service.kill("sandboxd", "server")
    service.kill_sandboxes()
    record_file = service.directory / "state" / "sandboxes" / contents.sandbox / "record.json"
    record = json.loads(record_file.read_text())
    record["process"]["boot_id"] = str(uuid.uuid4())
    record_file.write_text(json.dumps(record))
    # The pids mean other processes now, which must be left alone.
    start = int(pathlib.Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    mine = {"pid": os.getpid(), "start": start, "boot": str(uuid.uuid4())}
    service.edit_record(sandboxd=mine, server=mine)
    up = service.up()
    assert up["started"] and up["sandboxes_running"] == 0
    status = service.osb.json("sandbox", "get", contents.sandbox)["status"]
    assert (status["state"], status["reason"]) == ("Terminated", "HOST_RESTARTED")
    contents.check_files()


def test_a_deadline_that_has_passed_meanwhile_ends_the_sandbox(service):
    service.up()
    osb = service.osb
    ends, stays = (osb.json("sandbox", "create", "-i", "host", "-t", "1h")["id"] for _ in range(2))
    service.down()
    with sqlite3.connect(service.directory / "server" / "server.db") as database:
        database.execute("UPDATE sandboxes SET expires_at = 1000000 WHERE id = ?", (ends,))
    database.close()
    service.up()
    osb.ok("wait", ends, "--for", "deleted", "--timeout", "60s")
    assert [each["id"] for each in osb.json("sandbox", "list")["items"]] == [stays]


HALF_MADE = {
    "an empty directory": lambda service: None,
    "a draft of the record": lambda service: (service.directory / "service.json.new").write_text("{"),
}


@pytest.mark.parametrize("make", HALF_MADE.values(), ids=HALF_MADE)
def test_a_first_start_that_was_killed_early(service, make):
    service.directory.mkdir()
    make(service)
    assert service.up()["started"]


@pytest.mark.parametrize("unrecorded", [["sandboxd"], ["server"], ["sandboxd", "server"]], ids="+".join)
def test_daemons_that_a_killed_osb_has_not_recorded_are_found(service, unrecorded):
    service.up()
    before = service.record
    service.edit_record(**{name: None for name in unrecorded})
    assert not service.up()["started"]
    assert service.record == before
    service.edit_record(**{name: None for name in unrecorded})
    service.down()
    assert service.processes() == []


def test_a_record_without_daemons_and_settings(service):
    """As an osb leaves it that was killed before it started any."""
    service.up()
    service.kill("sandboxd", "server")
    for name in ("sandboxd.toml", "server.toml", "execd", "opensandbox-server"):
        (service.directory / name).unlink()
    service.edit_record(sandboxd=None, server=None)
    assert service.up()["started"]


def test_two_at_once_start_one_service(service):
    both = [service.osb.start("up", "--dir", service.directory, "-o", "json") for _ in range(2)]
    answers = []
    for each in both:
        out, err = each.communicate(timeout=120)
        assert each.returncode == 0, err
        answers.append(json.loads(out))
    started = [each.pop("started", False) for each in answers]
    assert len(service.processes()) == 2
    assert started.count(True) == 1, answers


def test_down_waits_for_up(service):
    starting = service.osb.start("up", "--dir", service.directory)
    stopped = service.osb.start("down", "--dir", service.directory)
    assert starting.communicate(timeout=120) and starting.returncode == 0
    assert stopped.communicate(timeout=120) and stopped.returncode == 0
    service.down()
    assert service.processes() == []


def test_a_service_of_an_older_version_is_taken_over(service, tmp_path):
    """Its record had fewer fields, and its database was in the directory itself."""
    service.up()
    contents = Contents(service, tmp_path)
    record = service.record
    network = record.pop("network")
    for name in ("host_paths", "profiles"):
        record.pop(name)
    service.down()
    for file in (service.directory / "server").iterdir():
        file.rename(service.directory / file.name)
    (service.directory / "server").rmdir()
    assert network == 0
    (service.directory / "service.json").write_text(json.dumps({**record, "sandboxd": None, "server": None}))
    service.up()
    contents.check()


def test_two_services_side_by_side(make_service, tmp_path):
    first, second = make_service("first"), make_service("second")
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    first.up()
    contents = [Contents(first, tmp_path / "first")]
    second.up("--port", second.osb.server.port)
    contents.append(Contents(second, tmp_path / "second"))
    records = [first.record, second.record]
    for name in ("network", "table", "interface_prefix", "cgroup_parent"):
        assert records[0][name] != records[1][name]
    for each in contents:
        each.check()
    for service in (first, second):
        service.kill("sandboxd", "server")
    first.up()
    second.up()
    for each in contents:
        each.check()
    first.purge()
    contents[1].check()
    assert httpx.get(f"http://127.0.0.1:{second.osb.server.port}/health", trust_env=False).status_code == 200


def test_a_stopped_service_gives_way_when_its_addresses_are_taken(make_service):
    first, second = make_service("first"), make_service("second")
    first.up()
    first.down()
    second.up("--port", second.osb.server.port)
    # As after a reboot, when claims are gone and the second is started first.
    taken = first.record["network"]
    second.down()
    second.edit_record(network=taken)
    pathlib.Path(f"/run/opensandbox-local/{taken}").write_text(str(second.directory))
    second.up()
    assert second.record["network"] == taken
    first.up()
    assert first.record["network"] != taken
    for service in (first, second):
        assert service.osb.run("run", "host", "--", "echo", "hello").stdout == b"hello\n"
