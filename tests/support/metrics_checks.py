"""execd's metrics beside the counters of the sandbox's cgroup, read from outside. Nothing here depends on how fast the
machine is: what was used between two answers lies between what the counters say right around them."""

import json
import pathlib
import time

MIB = 1 << 20


class Cgroup:
    """The cgroup `path` ("parent/id"), on v1, hybrid and v2 hosts."""

    def __init__(self, path):
        self._tops = [top / path for top in (pathlib.Path("/sys/fs/cgroup"), *pathlib.Path("/sys/fs/cgroup").iterdir())
                      if (top / path).is_dir()]
        assert self._tops, path

    def _read(self, name, key=""):
        """The first file of that name that has that key."""
        for directory in self._tops:
            if (file := directory / name).exists() and key in (text := file.read_text()):
                return text
        return None

    def cpu_seconds(self):
        if text := self._read("cpuacct.usage"):
            return int(text) / 1e9
        return int(dict(line.split() for line in self._read("cpu.stat", "usage_usec").splitlines())["usage_usec"]) / 1e6

    def memory_bytes(self):
        """Without file pages that the kernel can drop at once."""
        if text := self._read("memory.usage_in_bytes"):
            used, key = int(text), "total_inactive_file"
        else:
            used, key = int(self._read("memory.current")), "inactive_file"
        return used - int(dict(line.split() for line in self._read("memory.stat").splitlines())[key])


def host_memory_mib():
    return int(pathlib.Path("/proc/meminfo").read_text().split()[1]) / 1024


def cpu_share(cgroup, cpus, metrics, between=lambda: None):
    """The share of CPU between two answers of `metrics`, and the least and most that the cgroup's counter allows for it.
    `between` happens between the two."""
    outer = (time.monotonic(), cgroup.cpu_seconds())
    metrics()
    inner = (time.monotonic(), cgroup.cpu_seconds())
    between()
    inner_end = (time.monotonic(), cgroup.cpu_seconds())
    share = metrics()["cpu_used_pct"]
    outer_end = (time.monotonic(), cgroup.cpu_seconds())
    least = (inner_end[1] - inner[1]) / (outer_end[0] - outer[0]) / cpus
    most = (outer_end[1] - outer[1]) / (inner_end[0] - inner[0]) / cpus
    return share, 100 * least, 100 * most


def check_cpu(cgroup, cpus, metrics, run):
    """Idle and busy. `run` executes a shell command in the sandbox and returns when that has ended."""
    share, least, most = cpu_share(cgroup, cpus, metrics, lambda: run("sleep 1"))
    assert least * 0.9 - 1 <= share <= most * 1.1 + 1, (least, share, most)
    burn = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"
    share, least, most = cpu_share(cgroup, cpus, metrics, lambda: run(burn))
    assert least * 0.9 - 1 <= share <= most * 1.1 + 1, (least, share, most)
    assert least > 0, "the loop cost nothing?"


HOLD = """rm -f /tmp/pipe /tmp/go; mkfifo /tmp/pipe /tmp/go
dd if=/dev/zero of=/tmp/pipe bs=104857600 count=1 2>/dev/null &
(head -c 1 >/dev/null; echo held; read line </tmp/go) </tmp/pipe"""


def check_memory(cgroup, execd, run):
    """Before and while a program in the sandbox holds 100 MiB. `execd` is an HTTP client of the sandbox's execd, `run`
    executes a shell command."""
    def metrics():
        return execd.get("/metrics").json()

    before = metrics()
    assert before["mem_used_mib"] * MIB <= cgroup.memory_bytes() + 32 * MIB
    assert before["mem_used_mib"] < host_memory_mib() / 4
    with execd.stream("POST", "/command", json={"command": HOLD}) as stream:
        texts = (json.loads(line).get("text") for line in stream.iter_lines() if line)
        assert "held" in texts  # reads no further
        held = metrics()["mem_used_mib"]
        outside = cgroup.memory_bytes()
        run("echo >/tmp/go")
    assert held - before["mem_used_mib"] > 90, (before, held)
    assert abs(held * MIB - outside) < 32 * MIB
