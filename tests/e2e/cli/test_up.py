"""osb up, down and doctor: services of this machine."""

import json
import os
import pathlib
import socket

import httpx
import pytest
from osb_program import Osb, osb_binary


@pytest.fixture(autouse=True)
def nothing_left():
    """Overrides the suite's: here every test has a service of its own."""


def test_up_and_down(service, tmp_path):
    osb = service.osb
    up = service.up()
    assert up["url"] == f"http://127.0.0.1:{osb.server.port}" and up["api_key"] == osb.server.key and up["started"]
    assert httpx.get(up["url"] + "/health", trust_env=False).status_code == 200
    assert osb.run("run", "host", "--", "echo", "hello").stdout == b"hello\n"
    kept = osb.json("sandbox", "create", "--image", "host")["id"]
    # A second time it says the same; where another server answers nothing is started.
    assert service.up() == {**up, "started": False, "sandboxes_running": 1}
    assert osb.json("up", "--dir", tmp_path / "other")["status"] == "answers already"
    record = service.record
    assert service.cgroups() and len(service.processes()) == 2
    assert (service.directory / "service.json").stat().st_mode & 0o777 == 0o600
    assert kept in osb.ok("sandbox", "list", "-o", "json")
    doctor = osb.json("doctor")
    assert doctor["ok"], doctor
    states = {check["check"]: check["state"] for check in doctor["checks"]}
    assert states["server"] == states["api key"] == states["backend"] == states["overlayfs"] == "ok"
    assert service.purge() == {"status": "purged", "directory": str(service.directory)}
    assert not service.directory.exists()
    assert service.processes() == [] and service.cgroups(record) == []
    assert "Nothing" in osb.ok("down", "--dir", service.directory)
    assert service.purge()["status"] == "absent"


def test_the_server_has_no_privilege(service):
    service.up()
    status = pathlib.Path(f"/proc/{service.record['server']['pid']}/status").read_text()
    lines = dict(line.split(":\t", 1) for line in status.splitlines())
    assert all(id != "0" for id in lines["Uid"].split() + lines["Gid"].split()) and not lines["Groups"].strip()
    assert {int(lines[name], 16) for name in ("CapEff", "CapPrm", "CapBnd")} == {0} and lines["NoNewPrivs"] == "1"


def test_up_saves_a_profile_and_purge_removes_it(service, tmp_path):
    osb = service.osb
    del osb.env["OPEN_SANDBOX_DOMAIN"], osb.env["OPEN_SANDBOX_API_KEY"]
    config = tmp_path / ".opensandbox" / "config.toml"
    up = service.up("--port", osb.server.port)
    assert up["profile"] == "local" and up["domain"] == f"127.0.0.1:{osb.server.port}"
    assert config.stat().st_mode & 0o777 == 0o600
    assert osb.run("run", "host", "--", "echo", "hello").stdout == b"hello\n", "osb finds it without options"
    assert osb.json("config", "show")["profile"] == "local"
    saved = config.read_text()
    service.down()
    assert service.up() == {**up, "started": True}
    assert config.read_text() == saved
    said = osb.ok("up", "--dir", service.directory)
    assert "  osb run host -- echo hello\n" in said and up["api_key"] not in said
    assert 'For SDKs: eval "$(osb config env)"\n' in said
    assert osb.json("config", "env")["OPEN_SANDBOX_API_KEY"] == up["api_key"]
    osb.ok("config", "set", "defaults.image", "mine")
    record = service.record
    service.kill("sandboxd")
    service.purge()
    assert not service.directory.exists() and service.processes() == [] and service.cgroups(record) == []
    assert up["api_key"] not in config.read_text() and "local" not in config.read_text().replace("localhost", "")
    assert osb.ok("config", "get", "defaults.image") == "mine\n"


def test_up_leaves_the_configured_server_alone(service, tmp_path):
    osb = service.osb
    del osb.env["OPEN_SANDBOX_DOMAIN"], osb.env["OPEN_SANDBOX_API_KEY"]
    config = tmp_path / ".opensandbox" / "config.toml"
    config.parent.mkdir()
    before = '# mine\n[connection]\ndomain = "127.0.0.1:1"\napi_key = "another"\n\n[profiles.local]\ndomain = "prod"\n'
    config.write_text(before)
    up = service.up("--port", osb.server.port)
    assert up["profile"] == f"local-{osb.server.port}" and up["api_key"] != "another"
    assert config.read_text().startswith(before)
    said = osb.ok("up", "--dir", service.directory, "--port", osb.server.port)
    assert f"osb --profile {up['profile']} run host" in said and f"osb --profile {up['profile']} config env" in said
    assert osb.run("--profile", up["profile"], "run", "host", "--", "echo", "hello").stdout == b"hello\n"
    # A profile that was changed since stays.
    osb.ok("config", "set", f"profiles.{up['profile']}.api_key", "changed")
    service.purge()
    assert f"[profiles.{up['profile']}]" in config.read_text()


def test_no_save(service, tmp_path):
    del service.osb.env["OPEN_SANDBOX_API_KEY"]
    up = service.up("--no-save")
    assert up["profile"] is None and not (tmp_path / ".opensandbox").exists()
    said = service.osb.ok("up", "--no-save", "--dir", service.directory)
    assert f"OPEN_SANDBOX_API_KEY={up['api_key']}" in said and "Keep it secret" in said


def test_variables_that_name_another_server_are_told(service):
    service.up()
    service.osb.env["OPEN_SANDBOX_API_KEY"] = "wrong"
    done = service.osb.run("up", "--dir", service.directory)
    assert done.returncode == 0 and b"OPEN_SANDBOX_API_KEY in the environment" in done.stderr, done.stderr


@pytest.mark.parametrize("before", [None, 0o644])
def test_saved_files_belong_to_the_user(service, tmp_path, before):
    """`osb up` becomes root with the user's HOME."""
    os.chown(tmp_path, 12345, 12346)
    config = tmp_path / ".opensandbox" / "config.toml"
    if before:
        config.parent.mkdir()
        config.write_text('[connection]\napi_key = "another"\n')
        config.chmod(before)
        for path in (config, config.parent):
            os.chown(path, 12345, 12346)
    service.up()
    assert service.osb.server.key in config.read_text()
    assert config.stat().st_mode & 0o777 == 0o600
    for path in (config, config.parent):
        assert (path.stat().st_uid, path.stat().st_gid) == (12345, 12346)
    assert os.listdir(config.parent) == ["config.toml"]


def test_requests_that_up_refuses(service):
    osb = service.osb
    mine, private = service.directory.parent / "mine", service.directory.parent / "private"
    mine.mkdir()
    (mine / "file").write_text("keep me")
    assert "something else" in osb.refused("up", "--dir", mine)
    assert (mine / "file").read_text() == "keep me"
    private.mkdir(0o700)
    assert f"chmod o+x {private}" in osb.refused("up", "--dir", private / "service")
    assert not (private / "service").exists()
    (pathlib.Path(osb_binary()).parent / "execd").unlink()
    assert "execd is missing" in osb.refused("up", "--dir", service.directory)
    assert not service.directory.exists()


def test_a_busy_port_names_the_process_that_holds_it(service, make_service):
    osb = service.osb
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = osb.refused("up", "--dir", service.directory, "--port", port)
        assert f"(process {os.getpid()})" in said and "osb up --port " in said and "doctor" not in said, said
        assert not service.directory.exists() and service.processes() == []
        # The same when there is state; nothing of it is touched.
        service.up()
        service.down()
        before = service.record
        assert f"(process {os.getpid()})" in osb.refused("up", "--dir", service.directory, "--port", port)
        assert service.record == before
    service.up()
    said = osb.refused("up", "--dir", make_service("other").directory, "--port", osb.server.port)
    assert "an OpenSandbox server" in said and f"(process {service.record['server']['pid']})" in said, said


def test_the_port_can_be_changed(service):
    service.up()
    sandboxd = service.record["sandboxd"]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    up = service.up("--port", port)
    assert up["domain"] == f"127.0.0.1:{port}" and up["started"]
    assert service.record["sandboxd"] == sandboxd, "only the server is concerned"
    assert httpx.get(up["url"] + "/health", trust_env=False).status_code == 200
    service.osb.env["OPEN_SANDBOX_DOMAIN"] = up["domain"]
    service.down()
    assert service.up()["domain"] == up["domain"]


def test_host_paths_are_allowed_until_that_is_changed(service, tmp_path):
    osb = service.osb
    #  A user's directory, where no other user can go: sandboxes act as that user.
    home = service.directory.parent / "home"
    shared = home / "shared"
    shared.mkdir(parents=True)
    home.chmod(0o700)
    for directory in (home, shared):
        os.chown(directory, 54321, 54321)
    (shared / "file").write_text("of the host\n")
    volumes = tmp_path / "volumes.json"
    volumes.write_text(json.dumps([{"name": "data", "mountPath": "/data", "host": {"path": str(shared)}}]))
    create = ["sandbox", "create", "-i", "host", "--volumes-file", volumes]
    assert service.up()["host_paths"] == []
    assert osb.run(*create).returncode == 1
    assert "no such directory" in osb.refused("up", "--dir", service.directory, "--allow-host-path", tmp_path / "none")
    (tmp_path / "link").symlink_to(shared)
    up = service.up("--allow-host-path", tmp_path / "link")
    assert up["host_paths"] == [str(shared)] and up["started"]
    sandbox = osb.json(*create)["id"]
    assert osb.ok("command", "run", sandbox, "--", "cat", "/data/file") == "of the host\n"
    said = osb.ok("run", "-v", f"{shared}:/data", "host", "sh", "-c", "cat /data/file; echo inside > /data/made")
    assert said == "of the host\n" and (shared / "made").read_text() == "inside\n"
    assert (shared / "made").stat().st_uid == 54321
    done = osb.run("run", "-v", f"{shared}:/data:ro", "host", "sh", "-c", "cat /data/made; echo x > /data/made")
    assert done.returncode != 0 and done.stdout == b"inside\n" and b"Read-only" in done.stderr, done
    service.down()
    assert service.up()["host_paths"] == [str(shared)]
    assert f"Sandboxes may mount: {shared}\n" in osb.ok("up", "--dir", service.directory)
    assert osb.ok("command", "run", sandbox, "--", "cat", "/data/file") == "of the host\n"
    osb.ok("sandbox", "kill", osb.json(*create)["id"])
    assert service.up("--allow-host-path", "none")["host_paths"] == []
    assert osb.run(*create).returncode == 1


def test_purge_asks(service):
    osb = service.osb
    service.up()
    osb.ok("sandbox", "create", "--image", "host")
    said = osb.refused("down", "--dir", service.directory, "--purge", code=2)
    assert "--yes" in said and "1 running" in said
    for answer in ("n\n", "\n", "\x04"):
        with osb.terminal("down", "--dir", service.directory, "--purge") as terminal:
            terminal.expect("1 running")
            terminal.expect(r"\[y/N\] ")
            terminal.type(answer)
            terminal.expect("Nothing was deleted")
            assert terminal.wait() == 1
    assert service.up()["sandboxes_running"] == 1
    with osb.terminal("down", "--dir", service.directory, "--purge") as terminal:
        terminal.expect(r"\[y/N\] ")
        terminal.type("y\n")
        terminal.expect("deleted")
        assert terminal.wait() == 0
    assert not service.directory.exists() and service.processes() == []


def test_doctor_says_what_to_do(service, tmp_path):
    osb = service.osb
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
