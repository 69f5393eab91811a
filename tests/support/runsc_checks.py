"""Shared by the tests of sandboxes in gVisor."""

import json

import host_state

READY_SLOTS = 2
SETTINGS = {"network": {"subnet": "10.95.0.0/28", "ready_slots": READY_SLOTS}}


def check_nothing_left(daemon):
    """Of any sandbox, anywhere on the host."""
    assert daemon.list() == []
    host_state.wait_for_empty(daemon.state / "trash")
    left = host_state.files(daemon)
    assert not any(names for what, names in left.items() if what not in ("snapshots", "volumes")), left
    assert host_state.names(daemon.run / "oci") == set()
    assert host_state.cgroups(daemon) == set()
    assert host_state.processes(daemon) == set()
    host_state.wait_for_links(
        lambda: host_state.interfaces() == host_state.member_interfaces()
        and len(host_state.interfaces()) == READY_SLOTS,
        lambda: f"interfaces {host_state.interfaces()}, admitted {host_state.member_interfaces()}")
    assert not [path for path in host_state.mounts(daemon.pid) if "/sandboxes/" in path or "firmware" in path]


def wait_for_end(daemon, id):
    with daemon.client.stream("GET", "/v1/events") as stream:
        for line in stream.iter_lines():
            event = json.loads(line)
            for sandbox in event.get("sandboxes") or [event.get("sandbox") or {}]:
                if sandbox.get("id") == id and sandbox["state"] == "exited":
                    return sandbox
    raise AssertionError("the stream of events ended")
