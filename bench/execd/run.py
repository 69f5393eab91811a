#!/usr/bin/env python3
"""execd against what the kernel allows: each figure next to its yardstick, measured in turns in one run.

A yardstick is the same work without execd: starting a shell, reading a pipe, a sendfile loop, `nc | dd`, `find`, a raw
epoll responder. Where a target speaks of one core, execd runs on core 0 and everything else on core 1; otherwise all
share both.
"""

import contextlib
import http.client
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness  # noqa: E402
import report  # noqa: E402

SERVER_CORE, LOAD_CORE, BOTH_CORES = "0", "1", "0,1"
TOKEN = "bench"
MIB, GIB = 1 << 20, 1 << 30
LINES = -(-GIB // 80)
IDLE_SECONDS = 3  # execd takes itself for idle after one to two
FLAT_MIB = 8  # so much may a peak be above the memory before it


class Section:
    """The processes of one part of the run; they end with it. Collects a row per target."""

    def __init__(self, options, directory, stack):
        self.options = options
        self.dir = directory
        self.bin = pathlib.Path(options.build) / "bin"
        self.stack = stack
        self.pids = []
        self.foreign = []
        self.figures = {}
        self.rows = []

    def start(self, command, core, ready):
        pid = self.stack.enter_context(report.running(command, core=core, ready=ready))
        self.pids.append(pid)
        return pid

    def execd(self, core):
        """Port and pid of a fresh execd that writes its log to a file, as it does in a sandbox."""
        port = report.free_port()
        log = f"EXECD_LOG_FILE={self.dir}/execd.log"
        command = ["env", log, self.bin / "execd", "--port", port, "--access-token", TOKEN]
        return port, self.start(command, core, "listening on")

    def own(self, program, *arguments, core=BOTH_CORES):
        """One run of a program of bench/execd; what its line of JSON says."""
        done = subprocess.run(["taskset", "-c", core, self.bin / f"bench_execd_{program}", *map(str, arguments)],
                              stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(done.stdout) if done.stdout else {}

    def load(self, what, port, *arguments, core=BOTH_CORES):
        return self.own("load", what, port, TOKEN, *arguments, core=core)

    def rounds(self, name, variants, count=None):
        print(f" {name}")
        self.figures[name] = report.rounds(count or self.options.rounds, variants, self.pids, self.foreign)
        return self.figures[name]

    def target(self, what, measured, yardstick, ratio, target, ok, *, timing=True):
        """`ok` None: reported, not judged. Where `timing` is false a busy machine makes no difference."""
        self.rows.append({"what": what, "measured": measured, "yardstick": yardstick, "ratio": ratio, "target": target,
                          "ok": ok, "timing": timing})


@contextlib.contextmanager
def peak_growth(pid, figures):
    """Adds growth_mib: the peak of resident memory meanwhile minus resident memory before."""
    before = report.memory_kib(pid, "VmRSS")
    report.reset_peak_memory(pid)
    yield
    figures["growth_mib"] = (report.memory_kib(pid, "VmHWM") - before) / 1024


def commands(s):
    port, _ = s.execd(BOTH_CORES)

    def variants(clients, count):
        return {"execd": lambda: s.load("commands", port, clients, count, "/bin/true"),
                "bare spawn": lambda: s.own("yardstick", "spawn", clients, count, "/bin/true")}

    s.load("commands", port, 1, 100, "/bin/true")
    one = s.rounds("one client", variants(1, 800))
    ours, bare = one["execd"], one["bare spawn"]
    s.target("`/bin/true`, request sent to stream closed, p50", f"{ours['p50']:.2f} ms", f"{bare['p50']:.2f} ms",
             ours["p50"] / bare["p50"], "at most 2x a bare spawn", ours["p50"] <= 2 * bare["p50"])
    s.target("the same, p99", f"{ours['p99']:.2f} ms", f"{bare['p99']:.2f} ms", ours["p99"] / bare["p99"],
             "below 10 ms", ours["p99"] < 10)

    many = s.rounds("16 clients", variants(16, 2000))
    ours, bare = many["execd"], many["bare spawn"]
    s.target("16 clients, load included", f"{ours['per_s']:,.0f} commands/s", f"{bare['per_s']:,.0f} commands/s",
             ours["per_s"] / bare["per_s"], "at least 700/s", ours["per_s"] >= 700)

    clock = f"exec {s.bin / 'bench_execd_writer'} clock"
    age = s.rounds("first byte", {"execd": lambda: s.load("stamped", port, 400, clock)})["execd"]
    s.target("output's age when it arrives, p50", f"{age['p50']:.3f} ms", "", None, "at most 1 ms", age["p50"] <= 1)


def output(s):
    port, pid = s.execd(SERVER_CORE)
    # Commands inherit the daemon's core: theirs is the other one, next to the reader.
    writer = ["taskset", "-c", LOAD_CORE, s.bin / "bench_execd_writer", "lines", GIB]

    def ours():
        figures, cpu = {}, report.cpu_seconds(pid)
        with peak_growth(pid, figures):
            got = s.load("output", port, "exec " + " ".join(map(str, writer)), core=LOAD_CORE)
        others = got["events"] - LINES  # init, complete, and a ping every three seconds
        if not 2 <= others <= 3 + got["seconds"] / 3:
            raise RuntimeError(f"{got['events']} events came of {LINES} lines")
        return figures | {"mb_s": GIB / got["seconds"] / 1e6, "lines_s": LINES / got["seconds"],
                          "cpu_s": report.cpu_seconds(pid) - cpu}

    def bare():
        got = s.own("yardstick", "pipe", *writer, core=SERVER_CORE)
        return {"mb_s": GIB / got["seconds"] / 1e6, "lines_s": LINES / got["seconds"]}

    both = s.rounds("1 GiB of lines", {"execd": ours, "pipe": bare}, count=min(3, s.options.rounds))
    ours, bare = both["execd"], both["pipe"]
    s.target("1 GiB of 80-byte lines, execd on one core", f"{ours['mb_s']:,.0f} MB/s", f"{bare['mb_s']:,.0f} MB/s",
             ours["mb_s"] / bare["mb_s"], "at least 200 MB/s", ours["mb_s"] >= 200)
    s.target("the same in lines", f"{ours['lines_s']:,.0f} lines/s", f"{bare['lines_s']:,.0f} lines/s",
             ours["lines_s"] / bare["lines_s"], "at least 500,000/s", ours["lines_s"] >= 500_000)
    s.target("peak memory above idle meanwhile", f"{ours['growth_mib']:.1f} MiB", "", None,
             f"flat: below {FLAT_MIB} MiB", ours["growth_mib"] < FLAT_MIB, timing=False)


def download(s):
    file = s.dir / "gib"
    block = bytes(range(256)) * (MIB // 256)
    with open(file, "wb") as out:
        for _ in range(GIB // MIB):
            out.write(block)
    subprocess.run(["sync", "-d", file], check=True)
    port, pid = s.execd(SERVER_CORE)
    bare_port = report.free_port()
    s.start([s.bin / "bench_execd_yardstick", "sendfile", bare_port, file], SERVER_CORE, "listening")

    def fetch(at, target):
        got = s.load("get", at, target, core=LOAD_CORE)
        if got["status"] != 200 or got["bytes"] != GIB:
            raise RuntimeError(f"download: {got}")
        return {"mb_s": GIB / got["seconds"] / 1e6}

    def ours():
        figures = {}
        with peak_growth(pid, figures):
            figures |= fetch(port, f"/files/download?path={file}")
        return figures

    both = s.rounds("download", {"execd": ours, "sendfile": lambda: fetch(bare_port, "/")})
    ours, bare = both["execd"], both["sendfile"]
    s.target("download of 1 GiB", f"{ours['mb_s']:,.0f} MB/s", f"{bare['mb_s']:,.0f} MB/s (sendfile loop)",
             ours["mb_s"] / bare["mb_s"], "at least 0.70", ours["mb_s"] >= 0.7 * bare["mb_s"])
    s.target("peak memory above idle meanwhile", f"{ours['growth_mib']:.1f} MiB", "", None,
             f"flat: below {FLAT_MIB} MiB", ours["growth_mib"] < FLAT_MIB, timing=False)


def upload(s):
    port, pid = s.execd(BOTH_CORES)
    file = s.dir / "uploaded"

    def timed(transfer):
        begin = time.monotonic()
        transfer()
        took = time.monotonic() - begin
        if file.stat().st_size != GIB:
            raise RuntimeError(f"{file.stat().st_size} bytes were written")
        file.unlink()
        subprocess.run(["sync", "-f", s.dir], check=True)  # the next one starts with a calm disk
        return {"mb_s": GIB / took / 1e6}

    def ours():
        figures = {}
        with peak_growth(pid, figures):
            figures |= timed(lambda: s.load("upload", port, file, GIB))
        return figures

    def bare():
        at = report.free_port()
        taskset = ["taskset", "-c", BOTH_CORES]
        with subprocess.Popen([*taskset, "dd", f"of={file}", "bs=1M", "conv=fsync"], stdin=subprocess.PIPE,
                              stderr=subprocess.DEVNULL) as dd, \
             subprocess.Popen([*taskset, "nc", "-v", "-d", "-l", "127.0.0.1", str(at)], stdout=dd.stdin,
                              stderr=subprocess.PIPE, text=True) as nc:
            dd.stdin.close()
            if "Listening" not in nc.stderr.readline():
                raise RuntimeError("nc does not listen")

            def transfer():
                s.own("load", "send", at, GIB)
                if nc.wait() or dd.wait():
                    raise RuntimeError("nc or dd failed")

            return timed(transfer)

    both = s.rounds("upload", {"execd": ours, "nc | dd": bare}, count=min(3, s.options.rounds))
    ours, bare = both["execd"], both["nc | dd"]
    s.target("upload of 1 GiB, synced", f"{ours['mb_s']:,.0f} MB/s", f"{bare['mb_s']:,.0f} MB/s (`nc` into `dd`)",
             ours["mb_s"] / bare["mb_s"], "at least 0.80", ours["mb_s"] >= 0.8 * bare["mb_s"])
    s.target("peak memory above idle meanwhile", f"{ours['growth_mib']:.1f} MiB", "", None,
             f"flat: below {FLAT_MIB} MiB", ours["growth_mib"] < FLAT_MIB, timing=False)


def tree(s):
    root = s.dir / "tree"
    for number in range(100):
        directory = root / f"directory-{number:02}"
        directory.mkdir(parents=True)
        for file in range(1000):
            (directory / f"file-{file:03}.{'log' if file % 10 == 0 else 'txt'}").touch()
    port, _ = s.execd(BOTH_CORES)
    # The same attributes as a listing has: bare find prints names and asks the kernel nothing about a file. Times and
    # owners as numbers: for calendar times and names find opens files for every entry, and a slow yardstick proves
    # nothing.
    told = ["-printf", r"%p %y %s %T@ %C@ %U %G %m\n"]

    def ours(target):
        got = s.load("get", port, target)
        if got["status"] != 200:
            raise RuntimeError(f"{target}: status {got['status']}")
        return {"ms": got["seconds"] * 1e3}

    def find(*arguments):
        begin = time.monotonic()
        subprocess.run(["taskset", "-c", BOTH_CORES, "find", root, *arguments], stdout=subprocess.DEVNULL, check=True)
        return {"ms": (time.monotonic() - begin) * 1e3}

    def calls():
        got = s.own("yardstick", "attributes", 2, root)
        if got["files"] != 100_000:
            raise RuntimeError(f"{got['files']} files")
        return {"ms": got["seconds"] * 1e3}

    find(*told)  # the inodes are in memory from here on
    for what, target, arguments in [
        ("list 100,000 files", f"/directories/list?path={root}&depth=2", ["-mindepth", "1"]),
        ("search them, all match", f"/files/search?path={root}", ["!", "-type", "d"]),
        ("search them, one in ten matches", f"/files/search?path={root}&pattern=*.log",
         ["!", "-type", "d", "-name", "*.log"]),
    ]:
        figures = s.rounds(what, {"execd": lambda: ours(target), "find": lambda: find(*arguments),
                                  "find -printf": lambda: find(*arguments, *told), "calls": calls})
        took, bare, same, least = (figures[name]["ms"] for name in ("execd", "find", "find -printf", "calls"))
        s.target(what, f"{took:,.0f} ms", f"{bare:,.0f} ms (`find`: names only)", took / bare, "at most 2x",
                 took <= 2 * bare)
        s.target("the same attributes by `find`", f"{took:,.0f} ms", f"{same:,.0f} ms (`find -printf`)", took / same,
                 "reported", None)
        if "one in ten" not in what:  # attributes of all files
            s.target("the calls alone, on both cores", f"{took:,.0f} ms",
                     f"{least:,.0f} ms (`getdents64`, `fstatat`: {least / bare:.1f}x `find`)", took / least, "reported",
                     None)


def idle(s):
    program = s.bin / "execd"
    start = s.rounds("start", {"execd": lambda: s.own("load", "start", 40, program)})["execd"]
    s.target("start to first answered `/ping`, p50 (p99)", f"{start['p50']:.1f} ms ({start['p99']:.1f})", "", None,
             "below 10 ms", start["p50"] < 10)

    port, pid = s.execd(BOTH_CORES)
    client = http.client.HTTPConnection("127.0.0.1", port)

    def ask(method, path):
        client.request(method, path, headers={"X-EXECD-ACCESS-TOKEN": TOKEN})
        response = client.getresponse()
        response.read()
        return response.status

    def resident(pid=pid):
        text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
        kib = dict(re.findall(r"^(Rss|Pss|Anonymous):\s+(\d+) kB", text, re.M))
        return {name.lower(): int(value) / 1024 for name, value in kib.items()}

    if ask("GET", "/ping") != 200:
        raise RuntimeError("/ping was refused")
    asked = resident()
    time.sleep(IDLE_SECONDS)
    before = resident()
    s.figures["memory"] = {"asked": asked, "idle": before}
    s.target("resident memory right after a request", f"{asked['rss']:.2f} MiB", "", None, "below 3 MiB",
             asked["rss"] < 3, timing=False)
    s.target(f"after {IDLE_SECONDS} s without one", f"{before['rss']:.2f} MiB", "", None, "below 3 MiB",
             before["rss"] < 3, timing=False)
    s.target("the same as proportional share, no other running", f"{before['pss']:.2f} MiB", "", None, "below 2 MiB",
             before["pss"] < 2, timing=False)
    s.target("of it not the program's file", f"{before['anonymous']:.2f} MiB", "", None, "reported", None, timing=False)
    # On a host with sandboxes the program's pages are there once.
    pids = [s.execd(BOTH_CORES)[1] for _ in range(10)]
    share = statistics.median(resident(pid)["pss"] for pid in pids)
    s.figures["memory"]["ten"] = {"pss": share}
    s.target("proportional share with ten more running", f"{share:.2f} MiB", "", None, "below 2 MiB", share < 2,
             timing=False)
    size = s.figures["file_mib"] = program.stat().st_size / MIB
    s.target("the program's file", f"{size:.2f} MiB", "", None, "below 4 MiB", size < 4, timing=False)
    for what, path, expected in (("bash sessions", "/session", 200), ("PTY sessions", "/pty", 201)):
        before = resident()
        statuses = {ask("POST", path) for _ in range(1000)}
        if statuses == {404}:
            print(f"  this execd has no {path}")
            continue
        if statuses != {expected}:
            raise RuntimeError(f"POST {path}: {statuses}")
        grown = resident()["rss"] - before["rss"]
        s.figures["memory"][what] = grown
        s.target(f"1,000 idle {what} add", f"{grown:.2f} MiB", "", None, "reported", None, timing=False)


def ping(s):
    port, pid = s.execd(SERVER_CORE)
    raw = report.free_port()
    raw_pid = s.start([s.bin / "bench_raw_epoll", raw], SERVER_CORE, "listening")

    def measure(at, of):
        return lambda: report.wrk(f"http://127.0.0.1:{at}/ping", of, core=LOAD_CORE, connections=64, seconds=2,
                                  headers=[f"X-EXECD-ACCESS-TOKEN: {TOKEN}"])

    both = s.rounds("/ping", {"execd": measure(port, pid), "raw epoll": measure(raw, raw_pid)})
    ours, bare = both["execd"], both["raw epoll"]
    s.target("`GET /ping` with a token, one core", f"{ours['rps']:,.0f} requests/s", f"{bare['rps']:,.0f} (raw epoll)",
             ours["rps"] / bare["rps"], "at least 50,000/s", ours["rps"] >= 50_000)
    s.target("the same against raw epoll", f"{ours['rps']:,.0f} requests/s", f"{bare['rps']:,.0f} (raw epoll)",
             ours["rps"] / bare["rps"], "at least 0.60", ours["rps"] >= 0.6 * bare["rps"])


SECTIONS = {section.__name__: section for section in (idle, commands, output, download, upload, tree, ping)}


def measure(options, work):
    sections = {}
    for name in options.only or SECTIONS:
        print(name, flush=True)
        with tempfile.TemporaryDirectory(dir=work) as directory, contextlib.ExitStack() as stack:
            section = Section(options, pathlib.Path(directory), stack)
            SECTIONS[name](section)
        sections[name] = {"others": statistics.median(section.foreign), "figures": section.figures,
                          "targets": section.rows}
    return {"sections": sections, "others": statistics.median(each["others"] for each in sections.values())}


def markdown(data, options):
    sections, rows = data["sections"], []
    for section in sections.values():
        quiet = section["others"] <= report.Foreign.LIMIT
        for row in section["targets"]:
            judged = "" if row["ok"] is None else report.verdict(row["ok"], quiet or not row["timing"])
            ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
            rows.append([row["what"], row["measured"], row["yardstick"], ratio, row["target"], judged])
    others = ", ".join(f"{name} {section['others']:.0%}" for name, section in sections.items())
    return "\n\n".join([
        f"Medians of {options.rounds} interleaved rounds (3 where 1 GiB is printed or uploaded); two cores, and where "
        "it says one core execd has core 0 and everything else core 1. Yardsticks: `posix_spawn` of the same shell and "
        "wait, a reader of the same program's pipe, a sendfile loop, `nc` into `dd conv=fsync` on the same disk, "
        "`find` alone and `find -printf` of the same fields, the raw epoll responder of the HTTP section.",
        report.table(["what", "execd", "yardstick", "ratio", "target", ""], rows),
        "Why listing everything is not within twice the time of `find`: that one prints names and looks at no file, a "
        "listing tells size, owner, mode and times of each. Those system calls alone, on both cores, are the row below.",
        f"Share of the machine that other programs took meanwhile: {others}.",
    ])


if __name__ == "__main__":
    harness.main(harness.Part("execd", "execd", __doc__, measure, markdown, only=tuple(SECTIONS), root=False,
                              namespace=False, on_disk=True, tools=("wrk", "nc", "taskset")))
