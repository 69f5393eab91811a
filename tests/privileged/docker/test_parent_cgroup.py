"""The cgroup that holds all containers of a server that is root beside its engine."""

import contextlib
import os
import pathlib

import pytest

MIB = 1 << 20
NAME = "opensandbox-containers"
FILES = {"memory": ("memory.limit_in_bytes", "memory.max"), "pids": ("pids.max", "pids.max")}


def directory(controller):
    """Of the controller, by either version of cgroups."""
    root = pathlib.Path("/sys/fs/cgroup")
    return root / NAME if (root / "cgroup.controllers").exists() else root / controller / NAME


def limit(controller):
    v1, v2 = FILES[controller]
    place = directory(controller)
    return (place / (v1 if (place / v1).exists() else v2)).read_text().strip()


@pytest.fixture(autouse=True)
def no_parent_left(engine):
    yield
    for place in [pathlib.Path("/sys/fs/cgroup") / NAME, *pathlib.Path("/sys/fs/cgroup").glob(f"*/{NAME}")]:
        with contextlib.suppress(OSError):
            os.rmdir(place)


def test_all_sandboxes_have_a_limit_together(make_server, engine):
    server = make_server(settings={"docker": {"network_mode": "bridge", "cgroup_parent": "",
                                              "total_memory_bytes": 512 * MIB, "total_pids": 300}})
    made = server.create()["id"]
    assert engine.inspect(made)["HostConfig"]["CgroupParent"] == f"/{NAME}"
    assert (limit("memory"), limit("pids")) == (str(512 * MIB), "300")
    inside = [path for path in directory("pids").iterdir() if path.is_dir()]
    assert len(inside) == 1, "the container's cgroup is in it"
    server.remove_all()


def test_the_limits_are_derived_from_the_machine(make_server, engine):
    server = make_server(settings={"docker": {"network_mode": "bridge", "cgroup_parent": ""}})
    total = engine.ask("GET", "/info")["MemTotal"]
    assert total // 2 <= int(limit("memory")) < total
    pids = min(int(pathlib.Path(f"/proc/sys/kernel/{name}").read_text()) for name in ("pid_max", "threads-max"))
    assert int(limit("pids")) == pids // 4 * 3
    server.stop()


def test_an_operators_parent_is_left_alone(make_server, engine):
    server = make_server(settings={"docker": {"network_mode": "bridge", "cgroup_parent": f"/{engine.cgroup_parent}"}})
    made = server.create()["id"]
    assert engine.inspect(made)["HostConfig"]["CgroupParent"] == f"/{engine.cgroup_parent}"
    assert not directory("pids").exists()
    server.remove_all()
