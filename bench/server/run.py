#!/usr/bin/env python3
"""The lifecycle server on the native runtime: what the API adds to it, and how much it can take.

Needs root. Starts a sandboxd and a server of its own, in a network namespace of their own.
"""

import concurrent.futures
import contextlib
import json
import pathlib
import sqlite3
import statistics
import sys
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness  # noqa: E402
import report  # noqa: E402

IMAGE = "host"


class Bench:
    """One sandboxd and one server with fresh records, and their load programs."""

    def __init__(self, options, directory):
        from sandboxd_process import Sandboxd
        from server_process import Server
        self.programs = options.build / "bin"
        directory.mkdir()
        self.daemon = Sandboxd(directory=directory, settings={"network": {"ready_slots": 128},
                                                              "daemon": {"log_level": "warn"}})
        self.server = Server(self.daemon)
        self.load = harness.Load(self.programs / "bench_server_load", self.server.port, self.server.key,
                                 log=self.server.log)
        self.claim = harness.Load(self.programs / "bench_server_claim", self.server.port, self.server.key, IMAGE,
                                  log=self.server.log)
        self.native = harness.Load(self.programs / "bench_native_load", self.daemon.run / "sandboxd.sock", IMAGE,
                                   log=self.daemon.log)

    @property
    def pids(self):
        return [self.daemon.pid, self.server.process.pid]

    def close(self):
        """Sandboxes go with the daemon, which is quicker than asking for each."""
        self.server.close()
        self.daemon.close()


def median_of(runs):
    return {key: statistics.median(each[key] for each in runs) for key in runs[0]}


def creates(options, bench, foreign):
    """The same creates straight at sandboxd, through the API, and with a first command, in turns."""
    native, api, first = [], [], []
    for number in range(options.rounds):
        others = report.Foreign(bench.pids)
        native.append(bench.native("create", 40, 50))
        api.append(bench.load("create", 40, 50))
        first.append(bench.load("command", 40, 50))
        foreign.append(others.share())
        print(f"  round {number + 1}: native {native[-1]['p50']:.2f} ms, API {api[-1]['p50']:.2f} ms, with a command "
              f"{first[-1]['p50']:.2f} / {first[-1]['p99']:.2f} ms, others {foreign[-1]:.0%}", flush=True)
    return {"native": median_of(native), "api": median_of(api), "command": median_of(first)}


def claims(options, bench, foreign):
    """Sandboxes that the SDK's pool keeps ready."""
    rounds = []
    for _ in range(options.rounds):
        others = report.Foreign(bench.pids)
        rounds.append(bench.claim(50))
        foreign.append(others.share())
    claim = median_of(rounds)
    print(f"  claim of one that is there {claim['p50']:.2f} / {claim['p99']:.2f} ms", flush=True)
    return claim


def many(bench, foreign):
    bursts = []
    for _ in range(3):
        time.sleep(2)  # the pool of slots fills up again
        bursts.append(bench.load("burst", 100)["all_ms"])
    others = report.Foreign(bench.pids)
    cycle = bench.load("cycle", 500, 20)
    foreign.append(others.share())
    print(f"  100 at once {statistics.median(bursts):.0f} ms; 500 by 20 clients {cycle['per_s']:.0f}/s", flush=True)
    return {"burst_ms": statistics.median(bursts), "cycle": cycle}


def proxy(options, bench, foreign):
    sandbox = bench.server.create()["id"]
    address = bench.daemon.list()[0]["address"]
    rounds = []
    for _ in range(options.rounds):
        others = report.Foreign(bench.pids)
        seen = bench.load("calls", 5000, sandbox, address)
        foreign.append(others.share())
        rounds.append({"proxy": seen["proxy"]["p50"], "direct": seen["direct"]["p50"],
                       "added": seen["proxy"]["p50"] - seen["direct"]["p50"]})
    calls = median_of(rounds)
    commands = bench.load("commands", options.commands, 8, sandbox)
    bench.server.delete(sandbox)
    print(f"  execd's /ping {calls['direct']:.3f} ms, by the proxy {calls['proxy']:.3f} ms; "
          f"{commands['count']} commands by the proxy, {commands['per_s']:.0f}/s", flush=True)
    return {"calls": calls, "commands": commands}


def record(bench, count):
    """Gives the server that many records: copies of one whose sandbox could not be made, in a hundred groups."""
    if bench.server.client.get("/v1/sandboxes").json()["pagination"]["totalItems"] == 0:
        bench.server.create_failing(image={"uri": "127.0.0.1:1/none:none"}, metadata={"group": "0"})
    bench.server.stop()
    with contextlib.closing(sqlite3.connect(bench.server.directory / "server.db")) as database, database:
        columns = [row[1] for row in database.execute("pragma table_info(sandboxes)")]
        (have,) = database.execute("select count(*) from sandboxes").fetchone()
        row = dict(zip(columns, database.execute("select * from sandboxes limit 1").fetchone()))
        for number in range(have, count):
            copy = {**row, "id": str(uuid.uuid4()), "created_at": row["created_at"] + number,
                    "metadata": json.dumps({"group": str(number % 100)})}
            database.execute(f"insert into sandboxes values ({', '.join('?' * len(columns))})",
                             [copy[name] for name in columns])
    bench.server.start()
    total = bench.server.client.get("/v1/sandboxes").json()["pagination"]["totalItems"]
    assert total == count, total


def reads(options, bench, foreign):
    record(bench, 1000)
    id = bench.server.client.get("/v1/sandboxes", params={"page": 25, "pageSize": 20}).json()["items"][0]["id"]
    rounds = []
    for _ in range(options.rounds):
        others = report.Foreign(bench.pids)
        rounds.append(report.wrk(f"{bench.server.url}/v1/sandboxes/{id}", bench.server.process.pid, core=1,
                                 connections=32, seconds=3,
                                 headers=[f"OPEN-SANDBOX-API-KEY: {bench.server.key}"]))
        foreign.append(others.share())
    get = median_of(rounds)
    record(bench, 10_000)
    found = bench.server.client.get("/v1/sandboxes", params={"metadata": "group=7"}).json()["pagination"]["totalItems"]
    assert found == 100, found
    lists = median_of([bench.load("list", 300, "metadata=group%3D7&state=Failed&pageSize=50")
                       for _ in range(options.rounds)])
    print(f"  GET of 1,000 {get['rps']:.0f}/s; list of 10,000 with a filter {lists['p99']:.2f} ms p99", flush=True)
    return {"get": get, "list": lists}


def expiry(bench):
    """How late 10,000 sandboxes that end within two seconds are gone, by the events of some of them."""
    record(bench, 10_000)
    bench.server.stop()
    begin = time.time() + 8
    with contextlib.closing(sqlite3.connect(bench.server.directory / "server.db")) as database, database:
        ids = [row[0] for row in database.execute("select id from sandboxes")]
        deadlines = {id: begin + 2 * number / len(ids) for number, id in enumerate(ids)}
        database.executemany("update sandboxes set expires_at = ? where id = ?",
                             [(int(when * 1e6), id) for id, when in deadlines.items()])
    bench.server.start()

    def lateness(id):
        with bench.server.client.stream("GET", f"/v1/sandboxes/{id}", params={"watch": "true"}) as stream:
            assert stream.status_code == 200, stream.status_code
            for line in stream.iter_lines():
                if line and json.loads(line)["type"] == "deleted":
                    return (time.time() - deadlines[id]) * 1000
        raise RuntimeError(f"{id} did not end")

    with concurrent.futures.ThreadPoolExecutor(50) as pool:
        late = sorted(pool.map(lateness, ids[:: len(ids) // 50][:50]))
    print(f"  10,000 that end within 2 s: {late[0]:.1f} to {late[-1]:.1f} ms late", flush=True)
    assert late[0] >= 0, "early"
    return {"worst_ms": late[-1], "p50_ms": statistics.median(late)}


def memory(bench):
    """The server's RSS with a thousand sandboxes that run, in MiB."""
    before = report.memory_kib(bench.server.process.pid, "VmRSS") / 1024
    kept = bench.load("keep", 1000, 8)
    rss = report.memory_kib(bench.server.process.pid, "VmRSS") / 1024
    print(f"  RSS {before:.1f} MiB at first, {rss:.1f} MiB with 1,000 sandboxes ({kept['per_s']:.0f} made per second)",
          flush=True)
    return {"rss_empty": before, "rss": rss, "created_per_s": kept["per_s"]}


def measure(options, work):
    foreign = []
    parts = {
        "creates": lambda bench: creates(options, bench, foreign),
        "claims": lambda bench: claims(options, bench, foreign),
        "many": lambda bench: many(bench, foreign),
        "proxy": lambda bench: proxy(options, bench, foreign),
        "reads": lambda bench: reads(options, bench, foreign),
        "expiry": expiry,
        "memory": memory,
    }
    out = {}
    for name, part in parts.items():
        if options.only and name not in options.only:
            continue
        bench = Bench(options, work / name)
        try:
            out[name] = part(bench)
        finally:
            bench.close()
    return {**out, "others": statistics.median(foreign) if foreign else 1.0}


def markdown(out, options):
    quiet = out["others"] <= report.Foreign.LIMIT
    rows = []

    def row(what, value, target, ok):
        rows.append([what, value, target, report.verdict(ok, quiet)])

    if part := out.get("creates"):
        native, api, first = part["native"], part["api"], part["command"]
        added = api["p50"] - native["p50"]
        row("create → Running through the API, p50 above the runtime's", f"{added:.2f} ms ({api['p50']:.2f} against "
            f"{native['p50']:.2f})", "≤ 3 ms", added <= 3)
        row("create → first command's output by the proxy, p50", f"{first['p50']:.2f} ms", "≤ 8 ms",
            first["p50"] <= 8)
        row("p99", f"{first['p99']:.2f} ms", "≤ 30 ms", first["p99"] <= 30)
    if part := out.get("claims"):
        row("claim of a sandbox from the SDK's pool → execd answered, p50 (p99)", f"{part['p50']:.2f} ms "
            f"({part['p99']:.2f})", "≤ 1 ms", part["p50"] <= 1)
    if part := out.get("many"):
        row("100 creates at once, all Running", f"{part['burst_ms']:.0f} ms", "≤ 1,000 ms", part["burst_ms"] <= 1000)
        row("500 creates and removes by 20 clients", f"{part['cycle']['per_s']:.0f}/s", "≥ 200/s",
            part["cycle"]["per_s"] >= 200)
    if part := out.get("proxy"):
        calls, commands = part["calls"], part["commands"]
        row("the proxy adds to a call of execd, p50", f"{calls['added']:.3f} ms ({calls['proxy']:.3f} against "
            f"{calls['direct']:.3f})", "≤ 0.3 ms", calls["added"] <= 0.3)
        row(f"{commands['count']:,} commands by the proxy, events lost", f"none, {commands['per_s']:.0f} commands/s",
            "none", True)
    if part := out.get("reads"):
        get, lists = part["get"], part["list"]
        row("GET of one of 1,000 sandboxes", f"{get['rps']:,.0f}/s", "≥ 20,000/s", get["rps"] >= 20000)
        row("list with filters over 10,000, p99", f"{lists['p99']:.2f} ms", "< 20 ms", lists["p99"] < 20)
    if part := out.get("expiry"):
        row("10,000 sandboxes that end within 2 s, latest", f"{part['worst_ms']:.0f} ms late (p50 {part['p50_ms']:.1f})",
            "≤ 1,000 ms", part["worst_ms"] <= 1000)
    if part := out.get("memory"):
        row("RSS with 1,000 sandboxes", f"{part['rss']:.1f} MiB", "< 40 MiB", part["rss"] < 40)
    return (report.table(["what", "measured", "target", ""], rows) +
            f"\n\nSandboxes are made from `host`, single creates 50 ms apart; others took {out['others']:.0%} of the machine.")


def arguments(parser):
    parser.add_argument("--commands", type=int, default=100_000, help="that are streamed through the proxy")


if __name__ == "__main__":
    harness.main(harness.Part("server", "Lifecycle server", __doc__, measure, markdown,
                              only=("creates", "claims", "many", "proxy", "reads", "expiry", "memory"), tools=("wrk",),
                              arguments=arguments))
