"""osb up, down and doctor: what belongs to this machine."""

import glob
import json
import os
import pathlib
import shutil
import socket
import tempfile

import httpx
import pytest
from osb_program import Osb, osb_binary
from sandboxd_process import binary
from server_process import free_port, server_binary


@pytest.fixture(autouse=True)
def nothing_left():
    """Overrides the suite's: here every test has a service of its own."""


class NoServer:
    key = "a-key-for-tests"

    def __init__(self):
        self.port = free_port()


@pytest.fixture
def osb(tmp_path, monkeypatch):
    """In a directory with the other programs, as they are installed."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, program in (("osb", osb_binary()), ("sandboxd", binary("sandboxd")), ("execd", binary("execd")),
                          ("opensandbox-server", server_binary())):
        shutil.copy(program, programs / name)
    monkeypatch.setenv("OSB_BINARY", str(programs / "osb"))
    return Osb(NoServer(), tmp_path)


@pytest.fixture
def directory():
    """Of the service: the names of sockets are short."""
    with tempfile.TemporaryDirectory(prefix="up-") as made:
        yield pathlib.Path(made) / "service"


def processes(directory):
    """Of the service in this directory."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if str(directory).encode() in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
        except OSError:
            pass  # it has just ended
    return found


def cgroups(record):
    return glob.glob(f"/sys/fs/cgroup/{record['cgroup_parent']}") + \
        glob.glob(f"/sys/fs/cgroup/*/{record['cgroup_parent']}")


def test_up_and_down(osb, directory, tmp_path):
    up = osb.json("up", "--dir", directory)
    try:
        assert up["url"] == f"http://127.0.0.1:{osb.server.port}" and up["api_key"] == osb.server.key
        assert httpx.get(up["url"] + "/health", trust_env=False).status_code == 200
        assert osb.run("run", "host", "--", "echo", "hello").stdout == b"hello\n"
        kept = osb.json("sandbox", "create", "--image", "host")["id"]
        # A second time it says the same; where another server answers nothing is started.
        assert osb.json("up", "--dir", directory) == up
        assert osb.json("up", "--dir", tmp_path / "other")["status"] == "answers already"
        record = json.loads((directory / "service.json").read_text())
        assert cgroups(record) and processes(directory)
        assert (directory / "service.json").stat().st_mode & 0o777 == 0o600
        assert kept in osb.ok("sandbox", "list", "-o", "json")
        doctor = osb.json("doctor")
        assert doctor["ok"], doctor
        states = {check["check"]: check["state"] for check in doctor["checks"]}
        assert states["server"] == states["api key"] == states["backend"] == states["overlayfs"] == "ok"
    finally:
        osb.ok("down", "--dir", directory)
    assert not directory.exists()
    assert processes(directory) == [] and cgroups(record) == []
    assert "Nothing" in osb.ok("down", "--dir", directory)


def test_down_after_sandboxd_has_died(osb, directory, tmp_path):
    osb.ok("up", "--dir", directory, "--save")
    record = json.loads((directory / "service.json").read_text())
    config = tmp_path / ".opensandbox" / "config.toml"
    assert osb.server.key in config.read_text() and config.stat().st_mode & 0o077 == 0
    osb.ok("sandbox", "create", "--image", "host")
    os.kill(record["sandboxd"]["pid"], 9)
    osb.ok("down", "--dir", directory)
    assert not directory.exists() and processes(directory) == [] and cgroups(record) == []


@pytest.mark.parametrize("before", [None, 0o644])
def test_what_is_saved_stays_the_users(osb, directory, tmp_path, before):
    """`osb up` becomes root with the user's HOME."""
    os.chown(tmp_path, 12345, 12346)
    config = tmp_path / ".opensandbox" / "config.toml"
    if before:
        config.parent.mkdir()
        config.write_text('[connection]\napi_key = "another"\n')
        config.chmod(before)
        for path in (config, config.parent):
            os.chown(path, 12345, 12346)
    osb.ok("up", "--dir", directory, "--save")
    osb.ok("down", "--dir", directory)
    assert osb.server.key in config.read_text()
    assert config.stat().st_mode & 0o777 == 0o600
    for path in (config, config.parent):
        assert (path.stat().st_uid, path.stat().st_gid) == (12345, 12346)
    assert os.listdir(config.parent) == ["config.toml"]


def test_what_up_refuses(osb, directory, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("keep me")
    assert "--dir" in osb.refused("up", "--dir", tmp_path / "mine")
    assert (tmp_path / "mine" / "file").read_text() == "keep me"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = osb.run("up", "--dir", directory, "--port", port)
        assert done.returncode == 1 and b"did not start" in done.stderr, done.stderr
    assert not (directory).exists() and processes(directory) == []
    (pathlib.Path(osb_binary()).parent / "execd").unlink()
    assert "execd is missing" in osb.refused("up", "--dir", directory)


def test_doctor_says_what_to_do(osb, tmp_path):
    done = osb.run("doctor", "-o", "json")
    report = json.loads(done.stdout)
    assert done.returncode == 1 and not report["ok"]
    server, = [check for check in report["checks"] if check["check"] == "server"]
    assert server["state"] == "failed" and "osb up" in server["advice"]
    (tmp_path / "broken.toml").write_text("[connection\n")
    done = osb.run("--config", tmp_path / "broken.toml", "doctor")
    assert done.returncode == 1 and b"osb config init --force" in done.stdout


def test_doctor_tells_a_wrong_key(server, tmp_path):
    osb = Osb(server, tmp_path)
    assert json.loads(osb.run("doctor", "-o", "json").stdout)["ok"]
    osb.env["OPEN_SANDBOX_API_KEY"] = "wrong"
    done = osb.run("doctor")
    assert done.returncode == 1 and b"OPEN_SANDBOX_API_KEY" in done.stdout
