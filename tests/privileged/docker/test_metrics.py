"""The metrics of a container are its own, with any version of cgroups on the host."""

import os

import httpx
import metrics_checks
import pytest


@pytest.fixture
def box(server):
    """Makes a sandbox; gives its execd as an HTTP client, its cgroup, and a function that runs a command in it."""
    made = []

    def make(**limits):
        id = server.create(resourceLimits=limits)["id"]
        execd = httpx.Client(base_url=f"{server.url}/sandboxes/{id}/proxy/44772", headers=server.token(id), timeout=120,
                             trust_env=False)
        made.append((id, execd))
        cgroup = metrics_checks.Cgroup(f"{server.daemon.cgroup_parent}/{server.daemon.inspect(id)['Id']}")
        return execd, cgroup, lambda command: server.run(id, command)

    yield make
    for id, execd in made:
        execd.close()
        server.delete(id)


@pytest.mark.parametrize("cpus", [None, 0.5])
def test_cpu_is_the_containers_share_of_what_it_may_use(box, cpus):
    execd, cgroup, run = box(**({"cpu": "500m"} if cpus else {}))
    here = len(os.sched_getaffinity(0))
    metrics_checks.check_cpu(cgroup, cpus or max(here // 2, min(here, 2)), lambda: execd.get("/metrics").json(), run)


def test_memory_without_a_wish_has_the_default_as_its_total(box):
    execd, cgroup, run = box()
    assert metrics_checks.host_memory_mib() / 4 < execd.get("/metrics").json()["mem_total_mib"] < metrics_checks.host_memory_mib() / 2
    metrics_checks.check_memory(cgroup, execd, run)


def test_memory_with_a_limit_has_that_as_its_total(box):
    execd, cgroup, run = box(memory="256Mi")
    assert execd.get("/metrics").json()["mem_total_mib"] == 256
    metrics_checks.check_memory(cgroup, execd, run)


def test_a_command_and_an_entrypoint_that_run_out_of_memory_say_so(box, server):
    execd, _, _ = box(memory="64Mi")
    answer = execd.post("/command", json={"command": "dd if=/dev/zero of=/dev/null bs=200M count=1"})
    assert '"reason":"OUT_OF_MEMORY","reason_message":"out of memory (limit 64 MiB)"' in answer.text
    made = server.post_sandbox(wait=0, entrypoint=["dd", "if=/dev/zero", "of=/dev/null", "bs=200M", "count=1"],
                               resourceLimits={"memory": "64Mi"}).json()["id"]
    ended = server.wait_state(made, "Failed")["status"]
    assert (ended["reason"], ended["message"]) == ("OUT_OF_MEMORY", "out of memory (limit 64 MiB)")
    server.delete(made)
