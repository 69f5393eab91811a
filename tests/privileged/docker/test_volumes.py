"""Directories of the host and named volumes: who may mount what, and what becomes of it."""

import contextlib
import datetime
import pathlib
import socket
import subprocess
import threading

import pytest

from test_faults import stalling_registry

@pytest.fixture(scope="module")
def allowed(tmp_path_factory):
    place = tmp_path_factory.mktemp("volumes")
    place.chmod(0o755)
    (place / "in").mkdir()
    (place / "secret").mkdir()
    (place / "secret" / "file").write_text("secret\n")
    return place / "in"


@pytest.fixture(scope="module")
def server(engine, allowed):
    from conftest import SmallServer

    running = SmallServer(engine, settings={"storage": {"allowed_host_paths": [str(allowed)]}})
    yield running
    running.close()


def host(path, name="v", **fields):
    return {"name": name, "mountPath": f"/{name}", "host": {"path": str(path)}, **fields}


def named(claim, name="v", **fields):
    pvc = {key: fields.pop(key) for key in ("createIfNotExists", "deleteOnSandboxTermination") if key in fields}
    return {"name": name, "mountPath": f"/{name}", "pvc": {"claimName": claim, **pvc}, **fields}


def refusal(server, *volumes, code):
    response = server.post_sandbox(volumes=list(volumes))
    assert (response.status_code, response.json()["code"]) == (400, code), response.text
    assert server.client.get("/v1/sandboxes").json()["items"] == []
    return response.json()["message"]


def test_a_directory_of_the_host(server, allowed):
    (allowed / "data").mkdir()
    (allowed / "data" / "file").write_text("given\n")
    id = server.create(volumes=[host(allowed / "data"), host(allowed / "data", "r", readOnly=True)])["id"]
    assert server.run(id, "cat /v/file /r/file; echo back > /v/new") == "given\ngiven"
    assert (allowed / "data" / "new").read_text() == "back\n"
    assert "Read-only" in server.run(id, "echo x > /r/file")


def test_a_directory_that_is_missing_is_made_and_a_file_is_taken_as_it_is(server, allowed):
    (allowed / "one").write_text("file\n")
    id = server.create(volumes=[host(allowed / "made", subPath="a/b"), host(allowed / "one", "f")])["id"]
    assert (allowed / "made" / "a" / "b").is_dir()
    assert server.run(id, "cat /f; echo x > /v/x") == "file"
    assert (allowed / "made" / "a" / "b" / "x").exists()


def test_a_path_outside_is_refused_however_it_is_reached(server, allowed):
    secret = allowed.parent / "secret"
    (allowed / "link").symlink_to(secret)
    (allowed / "deep").mkdir()
    (allowed / "deep" / "up").symlink_to("../..")
    for volume in (host(secret), host("/"), host("/etc"), host(f"{allowed}x"), host(allowed.parent)):
        message = refusal(server, volume, code="VOLUME::HOST_PATH_NOT_ALLOWED")
        assert str(volume["host"]["path"]) in message, message
    for volume in (host(allowed / "link"), host(allowed, subPath="link"), host(allowed / "link" / "file"),
                   host(allowed, subPath="deep/up/secret"), host(allowed, subPath="link/new")):
        message = refusal(server, volume, code="VOLUME::HOST_PATH_NOT_ALLOWED")
        assert str(volume["host"]["path"]) in message, message
    assert not (secret / "new").exists()
    for path in (f"{allowed}/../secret", f"{allowed}//a", f"{allowed}/a/"):
        refusal(server, host(path), code="VOLUME::INVALID_HOST_PATH")
    for sub in ("../secret", "a/../../secret", "/etc"):
        refusal(server, host(allowed, subPath=sub), code="VOLUME::INVALID_SUB_PATH")
    refusal(server, host(allowed), host(allowed), code="VOLUME::DUPLICATE_NAME")


def test_without_a_list_nothing_is_allowed(make_server, server, allowed):
    strict = make_server()
    response = strict.post_sandbox(volumes=[host(allowed)])
    assert (response.status_code, response.json()["code"]) == (400, "VOLUME::HOST_PATH_NOT_ALLOWED")


def test_named_volumes(server, engine):
    first = server.create(volumes=[named("shared")])["id"]
    server.run(first, "echo kept > /v/file")
    labels = engine.ask("GET", "/volumes/shared")["Labels"]
    assert labels == {"opensandbox.io/volume-managed-by": "server", "opensandbox.io/volume-made-for": first}
    server.delete(first)
    # deleteOnSandboxTermination counts for those only that the request made.
    second = server.create(volumes=[named("shared", deleteOnSandboxTermination=True, readOnly=True)])["id"]
    assert server.run(second, "cat /v/file") == "kept"
    assert "Read-only" in server.run(second, "echo x > /v/file")
    server.delete(second)
    assert "shared" in engine.inventory()["volumes"]
    engine.ask("DELETE", "/volumes/shared")


def test_a_volume_goes_with_its_sandbox(server, engine):
    id = server.create(volumes=[named("goes", deleteOnSandboxTermination=True)])["id"]
    assert "goes" in engine.inventory()["volumes"]
    server.delete(id)
    assert "goes" not in engine.inventory()["volumes"]


def test_a_volume_goes_with_its_sandbox_also_at_the_deadline(server, engine):
    id = server.create(timeout=60, volumes=[named("due", deleteOnSandboxTermination=True)])["id"]
    soon = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=0.5)
    with engine.events(type=["volume"], event=["destroy"]) as events:
        assert server.client.post(f"/v1/sandboxes/{id}/renew-expiration",
                                  json={"expiresAt": soon.isoformat()}).status_code == 200
        assert next(events)["Actor"]["ID"] == "due"
    server.wait_state(id, "deleted")


def test_volumes_of_a_create_that_failed_are_undone(server, engine):
    refused = server.post_sandbox(image={"uri": "127.0.0.1:1/none:1"},
                                  volumes=[named("undone", deleteOnSandboxTermination=True)])
    assert refused.json()["code"] == "DOCKER::SANDBOX_IMAGE_PULL_FAILED", refused.text
    assert "undone" not in engine.inventory()["volumes"]


def test_a_volume_that_must_exist_and_does_not(server, engine):
    # The one in front of it, which the request would make, is not made.
    message = refusal(server, named("first", "w"), named("absent", createIfNotExists=False),
                      code="VOLUME::PVC_NOT_FOUND")
    assert "absent" in message
    assert "first" not in engine.inventory()["volumes"] and "absent" not in engine.inventory()["volumes"]


def test_a_part_of_a_volume(server, engine):
    id = server.create(volumes=[named("parts")])["id"]
    server.run(id, "mkdir -p /v/a/b; echo part > /v/a/b/file; echo whole > /v/file")
    server.delete(id)
    id = server.create(volumes=[named("parts", subPath="a/b")])["id"]
    assert server.run(id, "ls /v; cat /v/file") == "file\npart"
    server.delete(id)
    refusal(server, named("parts", subPath="../.."), code="VOLUME::INVALID_SUB_PATH")
    # One sandbox lays a trap for the next.
    id = server.create(volumes=[named("parts")])["id"]
    server.run(id, "busybox ln -s / /v/out; busybox ln -s ../../.. /v/up")
    server.delete(id)
    for part in ("out", "out/etc", "up"):
        refusal(server, named("parts", subPath=part), code="VOLUME::INVALID_SUB_PATH")
    engine.ask("DELETE", "/volumes/parts")


def sets_setuid_bits(server, *volumes):
    """Whether a sandbox with these volumes can give a file of its own a setuid bit, as packages do."""
    id = server.create(volumes=list(volumes))["id"]
    said = server.run(id, "touch /tmp/program; busybox chmod u+s /tmp/program && busybox stat -c %a /tmp/program")
    server.delete(id)
    assert said == "4644" or "not permitted" in said, said
    return said == "4644"


def test_setuid_bits_beside_a_host_path(server, make_server, allowed):
    """tests/privileged/attacks has the ways around."""
    assert sets_setuid_bits(server)
    assert sets_setuid_bits(server, named("with-setuid", createIfNotExists=True, deleteOnSandboxTermination=True))
    assert sets_setuid_bits(server, host(allowed / "setuid", readOnly=True))
    assert not sets_setuid_bits(server, host(allowed / "setuid"))
    subprocess.run(["mount", "--bind", allowed / "setuid", allowed / "setuid"], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,nosuid", allowed / "setuid"], check=True)
        assert sets_setuid_bits(server, host(allowed / "setuid"))
        assert not sets_setuid_bits(server, host(allowed / "setuid"), host(allowed / "another", "w"))
    finally:
        subprocess.run(["umount", allowed / "setuid"], check=True)

    storage, gaining = {"allowed_host_paths": [str(allowed)]}, {"no_new_privileges": False}
    without = make_server(settings={"storage": storage, "docker": gaining})
    message = refusal(without, host(allowed / "setuid"), code="VOLUME::HOST_PATH_NOT_ALLOWED")
    assert "allow_setuid_files" in message and "nosuid" in message, message
    without.stop()
    willing = make_server(settings={"storage": storage, "docker": {"allow_setuid_files": True}})
    assert sets_setuid_bits(willing, host(allowed / "setuid"))


def test_a_trap_that_is_laid_after_the_answer(make_server, engine, allowed):
    """A path that was allowed when it was checked is checked again when it is mounted."""
    server = make_server(settings={"storage": {"allowed_host_paths": [str(allowed)]}, "admission": {
        "max_concurrent_creates": 1}})
    with stalling_registry() as (port, came):
        first = server.post_sandbox(wait=0, image={"uri": f"127.0.0.1:{port}/slow:1"}).json()["id"]
        assert came.wait(60)
        # It waits for its turn.
        second = server.post_sandbox(wait=0, volumes=[host(allowed / "trap")])
        assert second.status_code == 202, second.text
        (allowed / "trap").symlink_to(allowed.parent / "secret")
        server.delete(first)
        status = server.wait_state(second.json()["id"], "Failed")["status"]
    assert status["reason"] == "VOLUME::HOST_PATH_NOT_ALLOWED", status
    server.remove_all()


class Between:
    """The way from a server to its engine. `moments` are parts of a request's first line and what is done before the
    engine hears of such a request, once."""

    def __init__(self, engine, path):
        self.engine, self.path, self.moments = engine, path, {}
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def __getattr__(self, name):
        return getattr(self.engine, name)

    def server_environment(self, home):
        return {**self.engine.server_environment(home), "DOCKER_HOST": f"unix://{self.path}"}

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, peer = self.listener.accept()[0], socket.socket(socket.AF_UNIX)
                peer.connect(str(self.engine.socket))
                for a, b in ((client, peer), (peer, client)):
                    threading.Thread(target=self._copy, args=(a, b), daemon=True).start()

    def _copy(self, a, b):
        with a, contextlib.suppress(OSError):
            while data := a.recv(65536):
                line = data.partition(b"\r\n")[0].decode(errors="replace")
                for part in [part for part in self.moments if part in line and "sandbox-execd" not in line]:
                    self.moments.pop(part)()
                b.sendall(data)
            b.shutdown(socket.SHUT_WR)


@pytest.fixture
def between(engine, tmp_path):
    made = Between(engine, tmp_path / "between.sock")
    yield made
    made.listener.shutdown(socket.SHUT_RDWR)
    made.listener.close()


@pytest.mark.parametrize("moment, entrypoint", [("/containers/create?", ["sleep", "1000"]), ("/start ", ["sleep", "1000"]),
                                                ("/start ", ["true"])], ids=["made", "started", "over at once"])
@pytest.mark.parametrize("kind", ["host", "part"])
def test_a_trap_that_is_laid_while_the_container_is(make_server, engine, allowed, between, tmp_path, kind, moment,
                                                    entrypoint):
    """A sandbox that has the directory above mounted can do this at any time."""
    if kind == "host":
        place = allowed / tmp_path.name
        volume, code = host(place), "VOLUME::HOST_PATH_NOT_ALLOWED"
    else:
        engine.ask("POST", "/volumes/create", json={"Name": "trapped"})
        place = pathlib.Path(engine.ask("GET", "/volumes/trapped")["Mountpoint"]) / "part"
        volume, code = named("trapped", subPath="part"), "VOLUME::INVALID_SUB_PATH"
    server = make_server(between, settings={"storage": {"allowed_host_paths": [str(allowed)]}})
    server.delete(server.create(volumes=[volume])["id"])

    def lay():
        place.rename(place.with_name("away-" + place.name))
        place.symlink_to(allowed.parent / "secret")

    between.moments[moment] = lay
    with engine.events(type=["container"], event=["start", "destroy"]) as events:
        refused = server.post_sandbox(volumes=[volume], entrypoint=entrypoint)
        assert (refused.status_code, refused.json()["code"]) == (400, code), refused.text
        assert str(place) in refused.json()["message"] and between.moments == {}, refused.text
        # It is gone, and was started only where that could not be known before.
        seen = [next(events)["Action"]]
        while seen[-1] != "destroy":
            seen.append(next(events)["Action"])
    assert ("start" in seen) == (moment == "/start "), seen
    server.remove_all()
    if kind == "part":
        engine.ask("DELETE", "/volumes/trapped")
