"""Sandboxes and clients that want more memory, processors, processes and sandboxes than there are for them."""

import json
import os
import pathlib

import pytest

from attack import attack, here, source

pytestmark = pytest.mark.wall("Ceilings", second="a limit for all sandboxes together, and a score that makes them die first")

MIB = 1 << 20


def limits_of(prisoner):
    """(bytes of memory, processes) that the backend holds it to; 0 is no limit."""
    prison = prisoner.prison
    if prison.kind in ("docker", "podman"):
        host = prison.daemon.inspect(prisoner.id)["HostConfig"]
        return host["Memory"], host["PidsLimit"]
    stats = prison.daemon.client.get(f"/v1/sandboxes/{prisoner.id}/stats").json()
    return stats["memory_limit_bytes"] or 0, int(cgroup_file(prison.daemon, "pids", "pids.max", prisoner.id))


def cgroup_file(daemon, controller, name, id=""):
    """The file of a sandbox's cgroup, or of the cgroup of all of them; in the hierarchy that has it."""
    top = pathlib.Path("/sys/fs/cgroup")
    for hierarchy in (top, top / controller, top / "unified"):
        file = hierarchy / daemon.cgroup_parent / id / name
        if file.exists():
            return file.read_text().strip()
    raise FileNotFoundError(f"{name} of {daemon.cgroup_parent}/{id}")


def memory_of_all(daemon):
    try:
        return int(cgroup_file(daemon, "memory", "memory.usage_in_bytes"))
    except FileNotFoundError:
        return int(cgroup_file(daemon, "memory", "memory.current"))


def may_set_scores():
    status = pathlib.Path("/proc/self/status").read_text()
    effective = next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff"))
    return int(effective, 16) >> 24 & 1 == 1


def oom_kills(sandbox):
    return sandbox.daemon.client.get(f"/v1/sandboxes/{sandbox.id}/stats").json()["oom_kills"]


# --- what a client may ask for

@pytest.mark.attack(by="a client with a key")
def test_a_sandbox_without_wishes_is_not_without_limits(prison):
    memory, pids = limits_of(prison.create(resourceLimits={}))
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < memory < machine
    assert 0 < pids <= 4096


@pytest.mark.attack(by="a client with a key")
@pytest.mark.parametrize("name", ["cpus", "Memory", "mem", "swap", "disk ", "nofile", "hugepages-2Mi", "nvidia.com/gpu", "",
                                  "x" * 100_000, "m\u00e9moire"], ids=lambda name: ascii(name[:20]))
def test_a_limit_that_nobody_knows_is_not_passed_over(prison, name):
    answer = prison.server.post_sandbox(resourceLimits={name: "1"})
    assert (answer.status_code, answer.json()["code"]) == (400, "SANDBOX::INVALID_PARAMETER"), answer.text
    message = answer.json()["message"]
    assert "Known limits: cpu, memory, gpu, disk" in message and len(message) < 1000


AMOUNTS = {
    "cpu": ["-1", "NaN", "inf", "1e9", "0x10", "", " ", "1,5", "9" * 400, "0"],
    "memory": ["-1", "NaN", "Infinity", "1e9", "1.5Gi", "0x10", "", "1 Gi Gi", "9" * 30, "9223372036854775808"],
    "pids": ["-1", "0", "7", "NaN", "1e3", "1k", "", "4194305", "18446744073709551617"],
    "disk": ["-1", "0", "NaN", "1e9", "", "99999999999999999999"],
    "io-read-bps": ["-1", "0", "NaN", "", "99999999999999999999"],
    "io-write-iops": ["-1", "0", "NaN", "", "4294967296", "1k"],
}


@pytest.mark.attack(by="a client with a key")
@pytest.mark.parametrize("name", AMOUNTS)
def test_an_amount_that_is_none_is_not_taken_for_no_limit(prison, name):
    for amount in AMOUNTS[name]:
        answer = prison.server.post_sandbox(resourceLimits={name: amount})
        assert (answer.status_code, answer.json()["code"]) == (400, "SANDBOX::INVALID_PARAMETER"), (amount, answer.text)
        assert name in answer.json()["message"]
    assert prison.server.post_sandbox(resourceLimits={name: 1}).status_code == 422


@pytest.mark.attack(by="a client with a key")
@pytest.mark.parametrize("limits, setting", [({"memory": "900Ti"}, "max_memory_bytes"), ({"cpu": "900"}, "max_cpu_millis"),
                                             ({"pids": "4194304"}, "pids")], ids=["memory", "cpu", "pids"])
def test_a_client_does_not_get_more_than_the_machine_has(prison, limits, setting):
    answer = prison.server.post_sandbox(resourceLimits=limits)
    assert (answer.status_code, answer.json()["code"]) == (400, "SANDBOX::INVALID_PARAMETER"), answer.text
    assert "at most" in answer.json()["message"] and setting in answer.json()["message"]
    assert prison.server.client.get("/v1/sandboxes", params={"metadata": "none=none"}).status_code == 200


@pytest.mark.attack(by="a client with a key")
def test_an_operators_maximum_is_not_exceeded_by_a_byte(make_daemon):
    daemon = make_daemon({"sandbox": {"max_memory_bytes": 64 * MIB, "max_cpu_millis": 500, "max_pids": 64}})
    for limits in ({"memory_bytes": 64 * MIB + 1}, {"cpu_millis": 501}, {"pids": 65}):
        status, problem = daemon.refused(id="more", limits=limits)
        assert status == 400 and "at most" in problem["message"], problem
    daemon.create("most", limits={"memory_bytes": 64 * MIB, "cpu_millis": 500, "pids": 64})
    daemon.create("nothing")
    assert daemon.client.get("/v1/sandboxes/nothing/stats").json()["memory_limit_bytes"] == 64 * MIB
    assert cgroup_file(daemon, "pids", "pids.max", "nothing") == "64"


@pytest.mark.attack(by="a client with a key")
def test_a_host_does_not_get_more_sandboxes_than_it_may_have(make_daemon):
    daemon = make_daemon({"sandbox": {"max_sandboxes": 2}})
    first = daemon.create("first")
    daemon.create("second", entrypoint=["sh", "-c", "exit 0"])
    daemon.wait_for_end("second")  # an ended one takes no place
    daemon.create("third")
    status, problem = daemon.refused(id="fourth")
    assert (status, problem["code"]) == (429, "SANDBOX::CAPACITY_EXCEEDED"), problem
    assert "max_sandboxes" in problem["message"]
    daemon.kill()
    daemon.start()
    assert daemon.refused(id="fourth")[0] == 429
    daemon.remove(first.id)
    daemon.create("fourth")


# --- what a sandbox takes

BOMB = """
import errno, json, os, signal
if os.fork() != 0:
    os.wait()
    os._exit(0)
os.setsid()
count = 0
try:
    while count < 2000:
        if os.fork() == 0:
            signal.pause()
        count += 1
except OSError as error:
    why = errno.errorcode[error.errno]
else:
    why = 'none'
print(json.dumps([count, why]), flush=True)
os.killpg(0, signal.SIGKILL)
"""


MULTIPLY = """
def multiply():
    for _ in range(30):
        if os.fork() == 0:
            os.closerange(0, 100)
            signal.pause()
    return 'held'
report(hold(multiply))
"""


def drop_bomb(prisoner):
    """(processes that came to life, why there were no more)."""
    text = prisoner.run(f"python3 - <<'BOMB'\n{BOMB}\nBOMB")[1]
    return json.loads(next(line for line in text.splitlines() if line.startswith("[")))


@pytest.mark.attack(on="native docker")
def test_a_fork_bomb_does_not_leave_its_sandbox(prison):
    neighbour, bomber = prison.shared(), prison.create(resourceLimits={"pids": "64"})
    count, why = drop_bomb(bomber)
    assert count < 64 and why == "EAGAIN"
    assert neighbour.output("echo unharmed") == "unharmed"
    assert bomber.output("echo even here") == "even here"


def test_fork_bombs_of_several_sandboxes_do_not_take_all_processes(make_daemon):
    daemon = make_daemon({"sandbox": {"total_pids": 100, "max_pids": 90}})
    first, second = (daemon.create(name, limits={"pids": 90}) for name in ("first", "second"))
    assert attack(first, MULTIPLY) == "held"
    assert attack(second, MULTIPLY) == "held"
    count, why = drop_bomb(second)
    assert count < 60 and why == "EAGAIN"
    assert int(cgroup_file(daemon, "pids", "pids.current")) <= 100
    assert cgroup_file(daemon, "pids", "pids.max") == "100"
    assert here("report(in_child(lambda: 'born'))") == "born"


def test_memory_of_several_sandboxes_does_not_exceed_what_they_have_together(make_daemon):
    limit = 256 * MIB
    daemon = make_daemon({"sandbox": {"total_memory_bytes": limit}})
    hogs = [daemon.create(f"hog-{number}", limits={"memory_bytes": 200 * MIB}) for number in range(3)]
    hog = "report(hold(lambda: globals().update(kept=b'x' * (100 << 20)) or 'held'))"
    said = [sandbox.run(f"python3 - <<'HOG'\n{source(hog, {})}\nHOG") for sandbox in hogs]
    assert said[0] == (0, '"held"')
    assert sum(map(oom_kills, hogs)) > 0, said
    assert memory_of_all(daemon) <= limit
    for sandbox in hogs:
        assert sandbox.output("echo alive") == "alive"
    daemon.create("next", limits={"memory_bytes": 16 * MIB})


@pytest.mark.attack(on="native docker")
def test_many_small_processes_do_not_make_the_kernel_kill_execd(prison):
    """By size alone execd would be the first: each of these is smaller."""
    prisoner = prison.create(resourceLimits={"memory": "64Mi", "pids": "3000"})
    prisoner.run("for i in $(seq 2000); do sleep 60 & done; wait", timeout=20_000)
    # A command may still find no memory while the others end.
    assert prisoner.is_answering()
    assert prison.server.state(prisoner.id) == "Running"


@pytest.mark.attack(on="native docker")
def test_a_sandbox_does_not_make_itself_the_last_to_be_killed(prisoner):
    got = attack(prisoner, """
def write(path, score):
    with open(path, 'w') as file:
        file.write(str(score))
    return open(path).read().strip()
own = '/proc/self/oom_score_adj'
report({'mine': int(open(own).read()), 'execd': int(open('/proc/1/oom_score_adj').read()),
        'least': in_child(lambda: write(own, -1000)), 'zero': in_child(lambda: write(own, 0)),
        'most': in_child(lambda: write(own, 1000))})
""")
    assert got["execd"] >= 500 and got["mine"] > got["execd"]
    assert got["least"] == "EACCES"
    #  Its maker needs CAP_SYS_RESOURCE to set the least score that it may have.
    assert got["zero"] == ("EACCES" if may_set_scores() else "0")
    assert got["most"] == "1000"


@pytest.mark.attack(on="native")
def test_the_number_of_open_files_is_not_raised(prisoner):
    got = attack(prisoner, """
import resource
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
def raise_hard():
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard + 1, hard + 1))
    except ValueError:
        return 'refused'
def fill():
    opened = []
    try:
        while True:
            opened.append(os.open('/dev/null', os.O_RDONLY))
    except OSError as error:
        return [len(opened), errno.errorcode[error.errno]]
report({'limits': [soft, hard], 'raise': raise_hard(), 'fill': in_child(fill)})
""")
    soft, hard = got["limits"]
    assert soft <= 65536 and hard <= 524288 and got["raise"] == "refused"
    assert got["fill"][0] <= soft and got["fill"][1] == "EMFILE"
    assert prisoner.output("echo alive") == "alive"


@pytest.mark.attack(on="native")
def test_limits_of_io_are_the_kernels(prison):
    limits = {"io-read-bps": "10Mi", "io-write-bps": "5Mi", "io-read-iops": "1000", "io-write-iops": "500"}
    prisoner = prison.create(resourceLimits=limits)
    try:
        text = cgroup_file(prison.daemon, "io", "io.max", prisoner.id)
        assert "rbps=10485760 wbps=5242880 riops=1000 wiops=500" in text
    except FileNotFoundError:
        for name, value in (("read_bps", 10485760), ("write_bps", 5242880), ("read_iops", 1000), ("write_iops", 500)):
            assert cgroup_file(prison.daemon, "blkio", f"blkio.throttle.{name}_device", prisoner.id).endswith(f" {value}")


@pytest.mark.attack(on="native")
def test_huge_pages_are_not_for_sandboxes(prison):
    prison.shared()
    parent = pathlib.Path("/sys/fs/cgroup")
    files = [file for top in (parent, parent / "unified") for file in (top / prison.daemon.cgroup_parent).glob("hugetlb.*.max")]
    if not files:
        pytest.skip("this kernel does not count huge pages per cgroup")
    assert {file.read_text().strip() for file in files} == {"0"}
