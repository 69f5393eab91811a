"""The metrics of a sandbox are its own, with any version of cgroups on the host, and in gVisor too."""

import os

import metrics_checks
import pytest


def cgroup_of(daemon, sandbox):
    return metrics_checks.Cgroup(f"{daemon.cgroup_parent}/{sandbox.id}")


def metrics_of(sandbox):
    response = sandbox.execd.get("/metrics")
    assert response.status_code == 200, response.text
    return response.json()


@pytest.fixture(params=["native", "runsc"])
def runtime(request):
    return request.param


@pytest.fixture
def open_daemon(make_daemon):
    """Its sandboxes have no limits unless they ask for them."""
    names = ("default_memory_bytes", "max_memory_bytes", "default_cpu_millis", "max_cpu_millis")
    network = {"subnet": "10.91.0.0/16", "table": "osb_open", "interface_prefix": "osbo-"}
    return make_daemon(settings={"sandbox": dict.fromkeys(names, 0), "network": network})


@pytest.mark.parametrize("cpu_millis", [None, 500])
def test_cpu_is_the_sandboxs_share_of_what_it_may_use(open_daemon, runtime, cpu_millis):
    daemon = open_daemon
    limits = {"cpu_millis": cpu_millis} if cpu_millis else {}
    sandbox = daemon.create(f"metrics-cpu-{cpu_millis or 'all'}", runtime=runtime, limits=limits)
    cgroup = cgroup_of(daemon, sandbox)
    cpus = cpu_millis / 1000 if cpu_millis else len(os.sched_getaffinity(0))
    metrics_checks.check_cpu(cgroup, cpus, lambda: metrics_of(sandbox), sandbox.output)


def test_memory_without_a_limit_is_the_sandboxs_use_of_the_hosts(open_daemon, runtime):
    daemon = open_daemon
    sandbox = daemon.create("metrics-memory", runtime=runtime)
    cgroup = cgroup_of(daemon, sandbox)
    assert abs(metrics_of(sandbox)["mem_total_mib"] - metrics_checks.host_memory_mib()) < 1
    metrics_checks.check_memory(cgroup, sandbox.execd, sandbox.output)


def test_memory_without_a_wish_has_the_default_as_its_total(daemon, runtime):
    sandbox = daemon.create("metrics-default", runtime=runtime)
    total = metrics_of(sandbox)["mem_total_mib"]
    assert total < metrics_checks.host_memory_mib() / 2
    limit = daemon.client.get(f"/v1/sandboxes/{sandbox.id}/stats").json()["memory_limit_bytes"]
    assert abs(total - limit / (1 << 20)) < 1


def test_memory_with_a_limit_has_that_as_its_total(daemon, runtime):
    sandbox = daemon.create("metrics-limit", runtime=runtime, limits={"memory_bytes": 256 << 20})
    cgroup = cgroup_of(daemon, sandbox)
    assert metrics_of(sandbox)["mem_total_mib"] == 256
    metrics_checks.check_memory(cgroup, sandbox.execd, sandbox.output)


def test_programs_in_the_sandbox_inherit_no_file_of_the_cgroup(daemon):
    entrypoint = ["sh", "-c", "ls -l /proc/self/fd; echo listed; exec sleep 1000"]
    sandbox = daemon.create("metrics-inherit", entrypoint=entrypoint)
    for listing in (daemon.said("metrics-inherit", lambda text: "listed\n" in text),
                    sandbox.output("ls -l /proc/self/fd")):
        assert "cpu.stat" not in listing and "memory." not in listing
