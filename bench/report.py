"""Shared by measurements: processes that say when they are ready, the machine's description, results as files."""

import contextlib
import json
import os
import pathlib
import platform
import re
import resource
import signal
import socket
import statistics
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def running(command, *, core, ready):
    """Runs `command` on one core and yields its pid once a line of its output contains `ready`."""
    process = subprocess.Popen(
        ["taskset", "-c", str(core), *map(str, command)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True)
    try:
        seen = []
        for line in process.stdout:
            seen.append(line)
            if ready in line:
                break
        else:
            raise RuntimeError(f"{command[0]} ended with status {process.wait()} before it was ready:\n{''.join(seen)}")
        yield process.pid
        if process.poll() is not None:
            raise RuntimeError(f"{command[0]} ended with status {process.returncode} while it was measured")
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        process.stdout.close()


def memory_kib(pid, field):
    """VmRSS, VmHWM, ... of a process."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(rf"^{field}:\s+(\d+) kB", status, re.M)[1])


def reset_peak_memory(pid):
    """From here on VmHWM is the peak since this call (proc(5): clear_refs 5)."""
    pathlib.Path(f"/proc/{pid}/clear_refs").write_text("5")


def cpu_seconds(pid, *, children=False):
    """User and system time of a process so far, if wanted with that of the children it has waited for."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15 if children else 13])) / os.sysconf("SC_CLK_TCK")


class Foreign:
    """How busy others kept the machine during a measurement: figures taken on a busy machine judge nothing.

    `pids` are the servers of the measurement; what they started, and finished children of this process (load
    generators), is ours too.
    """

    LIMIT = 0.10  # of all cores

    def __init__(self, pids):
        self._pids = pids
        self._begin = self._state()

    def _state(self):
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        own = children.ru_utime + children.ru_stime + cpu_seconds("self")
        own += sum(cpu_seconds(pid, children=True) for pid in self._pids)
        #  user, nice and system, and time that the hypervisor gave to others; interrupts are not counted.
        fields = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()
        busy = sum(int(fields[i]) for i in (1, 2, 3, 8)) / os.sysconf("SC_CLK_TCK")
        return time.monotonic(), busy, own

    def share(self):
        elapsed, busy, own = (now - then for now, then in zip(self._state(), self._begin))
        return max(0.0, (busy - own) / (elapsed * os.cpu_count()))


def rounds(count, variants, pids, foreign, seen=None):
    """{variant: {figure: median}} of `count` rounds in which the variants, functions that give figures, take turns.

    The share of the machine that others took during each measurement is added to the list `foreign`. All figures go to
    `seen`: ratios of one round are those of one moment.
    """
    seen = {} if seen is None else seen
    seen.update({name: [] for name in variants})
    for number in range(count):
        for name, measure in variants.items():
            others = Foreign(pids)
            seen[name].append(measure())
            foreign.append(others.share())
            figures = ", ".join(f"{key} {value:,.2f}" for key, value in seen[name][-1].items())
            print(f"  round {number + 1} {name:10} {figures}, others {foreign[-1]:.0%}", flush=True)
    return {name: {key: statistics.median(run[key] for run in runs) for key in runs[0]} for name, runs in seen.items()}


def verdict(ok, quiet):
    return ("met" if ok else "**missed**") if quiet else "not judged: machine was busy"


def wrk(url, pid, *, core, connections, seconds, headers=(), prefix=()):
    """One wrk run: requests/s, latencies in ms, CPU time of the server `pid` per request in us. Errors end the run. `prefix`:
    words of a program that runs it."""
    before = cpu_seconds(pid)
    extra = [argument for header in headers for argument in ("-H", header)]
    out = subprocess.run(
        [*prefix, "taskset", "-c", str(core), "wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", *extra, url],
        capture_output=True, text=True, check=True).stdout
    if "Socket errors" in out or "Non-2xx" in out:
        raise RuntimeError(f"wrk saw errors:\n{out}")

    def milliseconds(percent):
        number, unit = re.search(rf"{percent}%\s+([\d.]+)(us|ms|s)", out).groups()
        return float(number) * {"us": 0.001, "ms": 1, "s": 1000}[unit]

    requests = int(re.search(r"(\d+) requests in", out)[1])
    return {
        "rps": float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1]),
        "p50": milliseconds(50),
        "p99": milliseconds(99),
        "cpu_us": (cpu_seconds(pid) - before) / requests * 1e6,
    }


def git(*arguments):
    return subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True).stdout.strip()


def without_root(text):
    """Removes the path of the checkout, which does not belong into a report."""
    return str(text).replace(f"{ROOT}/", "").replace(str(ROOT), ".")


def machine():
    cpu = re.search(r"^model name\s*:\s*(.+)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    memory = re.search(r"^MemTotal:\s+(\d+) kB", pathlib.Path("/proc/meminfo").read_text(), re.M)
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs", ":!bench/results")
    return {
        "cpu": cpu[1] if cpu else platform.machine(),
        "cores": os.cpu_count(),
        "memory_gib": round(int(memory[1]) / (1 << 20), 1),
        "kernel": platform.release(),
        "load": round(os.getloadavg()[0], 2),
        "commit": git("rev-parse", "--short", "HEAD") + (" with changes" if changed else ""),
        "date": time.strftime("%Y-%m-%d"),
    }


def write(directory, result):
    """NAME.json in a directory of results."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{result['name']}.json").write_text(json.dumps(result, indent=2) + "\n")


def read(directory):
    """{name: result} of all that were written there."""
    results = [json.loads(path.read_text()) for path in sorted(directory.glob("*.json"))]
    return {result["name"]: result for result in results if "name" in result}


def table(header, rows):
    """A Markdown table with its columns lined up, readable on a terminal too."""
    cells = [list(map(str, row)) for row in [header, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines = ["| " + " | ".join(c.ljust(w) for c, w in zip(row, widths)) + " |" for row in cells]
    lines.insert(1, "| " + " | ".join("-" * w for w in widths) + " |")
    return "\n".join(lines)
