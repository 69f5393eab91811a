"""Sandboxes and snapshots from the SDK's side."""

import datetime

import pytest
from opensandbox.exceptions import SandboxApiException
from opensandbox.models.sandboxes import SandboxFilter, SnapshotFilter


def refused(call, status):
    with pytest.raises(SandboxApiException) as caught:
        call()
    assert caught.value.status_code == status, caught.value
    return caught.value


def stdout(execution):
    return [message.text for message in execution.logs.stdout]


def minutes(number):
    return datetime.timedelta(minutes=number)


def test_a_created_sandbox_fits_its_request(sdk, sandbox, server):
    info = sandbox.get_info()
    assert info.id == sandbox.id
    assert info.status.state == "Running"
    assert info.metadata == {"from": "sdk"}
    assert info.image.image == "host"
    assert info.entrypoint == ["tail", "-f", "/dev/null"]
    left = info.expires_at - datetime.datetime.now(datetime.timezone.utc)
    assert minutes(9) < left <= minutes(10)
    assert sandbox.is_healthy()
    assert [each["id"] for each in server.daemon.list()] == [sandbox.id]


def test_traffic_goes_the_way_that_was_chosen(sdk, sandbox, server):
    endpoint = sandbox.get_endpoint(44772).endpoint
    if sdk.proxied:
        assert endpoint == f"127.0.0.1:{server.port}/v1/sandboxes/{sandbox.id}/proxy/44772"
    else:
        assert endpoint == server.daemon.direct_endpoint(sandbox.id, 44772)


def test_a_killed_sandbox_is_gone(sdk, manager, server):
    made = sdk.create("host")
    made.kill()
    assert server.daemon.list() == []
    refused(made.get_info, 404)
    refused(lambda: manager.kill_sandbox(made.id), 404)
    assert not made.is_healthy()
    made.close()


def test_a_sandbox_without_a_deadline(sdk):
    made = sdk.create("host", timeout=None)
    assert made.get_info().expires_at is None
    refused(lambda: made.renew(minutes(5)), 409)
    made.kill()
    made.close()


def test_renewal_moves_the_deadline_both_ways(sandbox):
    for wanted in (minutes(30), minutes(2)):
        renewed = sandbox.renew(wanted).expires_at
        left = renewed - datetime.datetime.now(datetime.timezone.utc)
        assert wanted - minutes(1) < left <= wanted
        assert sandbox.get_info().expires_at == renewed


def test_metadata_is_patched(sandbox, manager):
    assert sandbox.patch_metadata({"from": None, "now": "patched"}).metadata == {"now": "patched"}
    assert manager.patch_sandbox_metadata(sandbox.id, {"more": "1"}).metadata == {"now": "patched", "more": "1"}
    assert sandbox.get_info().metadata == {"now": "patched", "more": "1"}
    refused(lambda: sandbox.patch_metadata({"-wrong": "x"}), 400)


def test_a_paused_sandbox_goes_on_where_it_was(sdk, sandbox):
    session = sandbox.commands.create_session()
    sandbox.commands.run_in_session(session, "export KEPT=yes")
    sandbox.pause()
    assert sandbox.get_info().status.state == "Paused"
    refused(sandbox.pause, 409)
    resumed = sdk.resume(sandbox.id)
    assert resumed.get_info().status.state == "Running"
    assert stdout(resumed.commands.run_in_session(session, "echo $KEPT")) == ["yes"]
    refused(lambda: sdk.resume(sandbox.id), 409)
    resumed.close()


def test_the_manager_pauses_and_resumes_too(sandbox, manager):
    manager.pause_sandbox(sandbox.id)
    assert manager.get_sandbox_info(sandbox.id).status.state == "Paused"
    manager.resume_sandbox(sandbox.id)
    assert manager.get_sandbox_info(sandbox.id).status.state == "Running"


def test_others_connect_to_it(sdk, sandbox):
    sandbox.files.write_file("/root/mine", "seen")
    other = sdk.connect(sandbox.id)
    assert other.files.read_file("/root/mine") == "seen"
    other.close()


def test_lists_are_filtered_and_paged(sdk, manager):
    made = [sdk.create("host", metadata={"group": group, "n": str(n)}) for n, group in enumerate("aab")]
    made[2].pause()

    def ids(**fields):
        return sorted(each.id for each in manager.list_sandbox_infos(SandboxFilter(**fields)).sandbox_infos)

    assert ids() == sorted(each.id for each in made)
    assert ids(metadata={"group": "a"}) == sorted(each.id for each in made[:2])
    assert ids(metadata={"group": "a", "n": "1"}) == [made[1].id]
    assert ids(states=["Paused"]) == [made[2].id]
    assert ids(states=["RUNNING", "PAUSED"], metadata={"group": "b"}) == [made[2].id]
    assert ids(metadata={"group": "none"}) == []
    first = manager.list_sandbox_infos(SandboxFilter(page_size=2, page=1))
    second = manager.list_sandbox_infos(SandboxFilter(page_size=2, page=2))
    assert (first.pagination.total_items, first.pagination.total_pages) == (3, 2)
    assert first.pagination.has_next_page and not second.pagination.has_next_page
    seen = [each.id for page in (first, second) for each in page.sandbox_infos]
    assert sorted(seen) == sorted(each.id for each in made)
    for each in made:
        each.kill()
        each.close()


def test_a_snapshot_becomes_another_sandbox(sdk, sandbox, manager):
    sandbox.commands.run("mkdir -p /root/notes && echo kept > /root/notes/note && rm -f /etc/hostname")
    snapshot = sandbox.create_snapshot("from-sdk")
    assert (snapshot.sandbox_id, snapshot.name) == (sandbox.id, "from-sdk")
    while (state := manager.get_snapshot(snapshot.id).status.state) == "Creating":
        pass
    assert state == "Ready"
    listed = manager.list_snapshots(SnapshotFilter(sandbox_id=sandbox.id, states=["Ready"])).snapshot_infos
    assert [each.id for each in listed] == [snapshot.id]
    assert manager.list_snapshots(SnapshotFilter(name="other")).snapshot_infos == []
    sandbox.commands.run("echo changed > /root/notes/note")
    restored = sdk.create(snapshot_id=snapshot.id)
    assert restored.get_info().snapshot_id == snapshot.id
    assert stdout(restored.commands.run("cat /root/notes/note")) == ["kept"]
    refused(lambda: manager.delete_snapshot(snapshot.id), 409)
    restored.kill()
    restored.close()
    manager.delete_snapshot(snapshot.id)
    refused(lambda: manager.get_snapshot(snapshot.id), 404)
    refused(lambda: sdk.create(snapshot_id=snapshot.id), 404)


def test_a_wrong_key_is_told(sdk):
    stranger = sdk.manager(api_key="guess")
    refused(lambda: stranger.list_sandbox_infos(SandboxFilter()), 401)
    stranger.close()


def test_a_failed_create_is_reported(sdk):
    refused(lambda: sdk.create("host", resource={"memory": "lots"}), 400)
    refused(lambda: sdk.create("host", timeout=datetime.timedelta(seconds=5)), 422)
    refused(lambda: sdk.create("host", metadata={"-wrong": "x"}), 400)
