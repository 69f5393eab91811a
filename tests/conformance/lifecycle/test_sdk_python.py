"""The official Python SDK, unmodified, against the real server."""

import concurrent.futures
import contextlib
import datetime
import socket

import pytest
from opensandbox import SandboxSync
from opensandbox.config.connection_sync import ConnectionConfigSync
from opensandbox.exceptions import SandboxException
from opensandbox.models.filesystem import WriteEntry


@pytest.fixture(params=["direct", "proxy"])
def config(server, request):
    return ConnectionConfigSync(domain=f"127.0.0.1:{server.port}", api_key=server.key,
                                use_server_proxy=request.param == "proxy",
                                request_timeout=datetime.timedelta(seconds=30))


@pytest.fixture
def sandbox(config):
    made = SandboxSync.create("host", connection_config=config, timeout=datetime.timedelta(minutes=10),
                              metadata={"from": "sdk"}, env={"GREETING": "hello"})
    yield made
    made.kill()
    made.close()


@pytest.mark.on_docker
def test_commands(sandbox):
    result = sandbox.commands.run("echo $GREETING; echo oops >&2; exit 3")
    assert [line.text for line in result.logs.stdout] == ["hello"]
    assert [line.text for line in result.logs.stderr] == ["oops"]
    assert result.exit_code == 3


def test_variables_for_all_commands(sandbox):
    sandbox.commands.set_env("FOR_ALL", "it's\nkept")
    assert [line.text for line in sandbox.commands.run("echo \"$FOR_ALL\"").logs.stdout] == ["it's", "kept"]


def test_files(sandbox):
    sandbox.files.write_files([WriteEntry(path="/root/a.txt", data="one\ntwo\n", mode=644)])
    assert sandbox.files.read_file("/root/a.txt") == "one\ntwo\n"
    assert sandbox.commands.run("wc -l < /root/a.txt").logs.stdout[0].text.strip() == "2"


@pytest.mark.on_docker
def test_life(sandbox, config):
    info = sandbox.get_info()
    assert info.status.state == "Running"
    assert info.metadata == {"from": "sdk"}
    renewed = sandbox.renew(datetime.timedelta(minutes=30))
    left = renewed.expires_at - datetime.datetime.now(datetime.timezone.utc)
    assert datetime.timedelta(minutes=29) < left < datetime.timedelta(minutes=31)
    assert sandbox.patch_metadata({"from": None, "now": "patched"}).metadata == {"now": "patched"}
    sandbox.pause()
    assert sandbox.get_info().status.state == "Paused"
    resumed = SandboxSync.resume(sandbox.id, connection_config=config)
    assert resumed.commands.run("echo on").logs.stdout[0].text == "on"
    connected = SandboxSync.connect(sandbox.id, connection_config=config)
    assert connected.is_healthy()
    resumed.close()
    connected.close()


@pytest.mark.on_docker
@pytest.mark.parametrize("late", [False, True], ids=["in time", "late"])
def test_an_image_that_cannot_be_had_is_named(server, config, late):
    """The SDK neither polls the state nor waits for less than 30 seconds, so it has to be told."""
    with socket.create_server(("127.0.0.1", 0)) as registry, concurrent.futures.ThreadPoolExecutor(1) as pool:
        uri = f"127.0.0.1:{registry.getsockname()[1]}/no/such:image"
        # The answer of the create is written to the audit log, which is in the log.
        with server.saying("action=create") if late else contextlib.nullcontext():
            creating = pool.submit(SandboxSync.create, uri, connection_config=config)
            asking, _ = registry.accept()  # the pull has begun, and gets no answer
        registry.close()
        asking.close()
        failure = creating.exception(120)
    assert isinstance(failure, SandboxException), failure
    assert "no/such" in str(failure), failure
    assert server.client.get("/v1/sandboxes").json()["items"] == []


def test_snapshots(server, sandbox, config):
    from opensandbox import SandboxManagerSync

    sandbox.commands.run("echo kept > /root/note")
    snapshot = sandbox.create_snapshot("from-sdk")
    manager = SandboxManagerSync.create(connection_config=config)
    server.client.get(f"/v1/snapshots/{snapshot.id}", params={"wait": 60})
    assert manager.get_snapshot(snapshot.id).status.state == "Ready"
    restored = SandboxSync.create(snapshot_id=snapshot.id, connection_config=config)
    assert restored.commands.run("cat /root/note").logs.stdout[0].text == "kept"
    restored.kill()
    restored.close()
    manager.delete_snapshot(snapshot.id)
    manager.close()
