"""Shared by the tests of crashes and restarts: a daemon with few addresses, and a check for leftovers."""

import os
import pathlib

import httpx
import pytest

import host_state

READY_SLOTS = 2
# So few addresses and id ranges that a lost one shows.
SETTINGS = {"network": {"subnet": "10.94.0.0/28", "ready_slots": READY_SLOTS}}
CAPACITY = 13


def crash(daemon, step, operation):
    """The operation with a daemon that ends at the step; then the next daemon."""
    daemon.stop()
    daemon.start(env={"SANDBOXD_FAULT": step})
    with pytest.raises(httpx.TransportError):
        operation()
    assert daemon.process.wait(30) == 137
    daemon.client.close()
    daemon.start()


def check_host(daemon, living, snapshots=(), volumes=(), recycled=0):
    """Nothing is on the host but what these sandboxes own. Up to `recycled` slots may be ready besides the usual, and
    one may be with the root that waits for the next sandbox."""
    statuses = {status["id"]: status for status in daemon.list()}
    assert set(statuses) == set(living)
    host_state.wait_for_empty(daemon.state / "trash")
    assert host_state.files(daemon) == {
        "sandboxes": set(living), "trash": set(), "sockets": {f"{id}.sock" for id in living},
        "snapshots": set(snapshots), "snapshots in the making": set(),
        "volumes": set(volumes), "volumes in the making": set()}
    assert {os.path.basename(path) for path in host_state.cgroups(daemon)} == set(living)
    for pid in host_state.processes(daemon):
        cgroup = pathlib.Path(f"/proc/{pid}/cgroup").read_text()
        assert any(f"/{daemon.cgroup_parent}/{id}\n" in cgroup for id in living)
    published = [port for status in statuses.values() for port in status["ports"]]
    assert len(host_state.elements("published")) == len(published)
    # The kernel takes interfaces of the dead away in its own time, and the pool refills in its own.
    host_state.wait_for_links(
        lambda: host_state.interfaces() == host_state.member_interfaces()
        and 0 <= len(host_state.interfaces()) - READY_SLOTS - len(living) <= recycled + 1,
        lambda: f"interfaces {host_state.interfaces()}, admitted {host_state.member_interfaces()}, living {living}")
    assert not [path for path in host_state.mounts(daemon.pid) if "/sandboxes/" in path or "/volumes/" in path]


def check_works(daemon, sandbox):
    assert sandbox.inspect()["state"] == "running"
    assert sandbox.output("cat /root/file") == "kept"


def check_room(daemon, living):
    """Every address and id range can be had."""
    others = [f"room-{n}" for n in range(CAPACITY - len(living))]
    for id in others:
        daemon.create(id)
    status, problem = daemon.refused(id="one-too-many")
    assert status == 503 and "no address left" in problem["message"]
    for id in others:
        assert daemon.client.delete(f"/v1/sandboxes/{id}").status_code == 204
