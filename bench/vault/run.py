#!/usr/bin/env python3
"""Connections of sandboxes with a credential vault, beside mitmproxy, nginx and no proxy at all.

Three network namespaces: sandboxes, the host, and the internet with a web server. nftables redirects the connections of
sandboxes to the interceptors, which run on core 0; the load and the web server are on core 1. The variants take turns within
every round, and the median of the rounds counts.
"""

import contextlib
import functools
import json
import os
import pathlib
import statistics
import subprocess
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1]), str(pathlib.Path(__file__).resolve().parent)]
import harness  # noqa: E402
import report  # noqa: E402
import connections  # noqa: E402: beside this file
from world import BOUND, GIB, LOAD_CORE, UNBOUND, World  # noqa: E402

PARTS = ("requests", "first", "spliced", "streams", "memory")
MANY, FEW, SANDBOXES, IDLE = 32, 10, 100, 1000


def prepare():
    requirements = harness.ROOT / "bench" / "vault" / "requirements.txt"
    subprocess.run([harness.ROOT / "scripts" / "python-env", requirements, harness.ROOT / "build" / "bench" / "mitmproxy"],
                   check=True)


def rounds(world, variants, seen=None):
    return report.rounds(world.options.rounds, variants, world.pids, world.foreign, seen)


def requests(world, servers):
    out = {}
    for name, count in (("one", 1), ("many", MANY)):
        print(f"requests over {count} kept-alive connections")
        out[name] = rounds(world, {way: functools.partial(world.wrk, way, pid, count) for way, pid in servers.items()})
    return out


def new_hosts(world, ours):
    print("first connections to hosts")
    others = report.Foreign(world.pids)
    samples = connections.new_hosts(world, ours, 10 if world.options.quick else 100, FEW)
    world.foreign.append(others.share())
    return {way: {"handshake": statistics.median(each[0] for each in seen), "answer": statistics.median(each[1] for each in seen)}
            for way, seen in samples.items()}


def transfer(world, url, way, pid, *words):
    before = report.cpu_seconds(pid) if pid else 0
    moved, speed = world.curl(url, way, *words)
    busy = report.cpu_seconds(pid) - before if pid else 0
    return {"mib_s": speed, "cpu_ms_gib": busy * 1000 * GIB / moved}


def spliced(world, ours, stream):
    """Connections that are passed through: as fast as the machine can, and over a link of 1 Gbit/s."""
    ways = {"direct": None, "ours": ours, "nginx stream": stream}
    print("1 GiB of an unbound host")
    out = {"unshaped": rounds(world, {way: functools.partial(transfer, world, f"http://{UNBOUND}/gib", way, pid)
                                      for way, pid in ways.items()})}
    shape = "root tbf rate 1gbit burst 256kb latency 50ms".split()
    subprocess.run(["tc", "qdisc", "add", "dev", "internet", *shape], check=True)
    subprocess.run([*world.internet.enter, "tc", "qdisc", "add", "dev", "eth0", *shape], check=True)
    del ways["nginx stream"]
    for name, url, words in (("down", f"https://{UNBOUND}/link", ()), ("up", f"https://{UNBOUND}/up", ("-T", world.work / "link"))):
        print(f"over a link of 1 Gbit/s, {name}")
        out[name] = rounds(world, {way: functools.partial(transfer, world, url, way, pid, *words) for way, pid in ways.items()})
    subprocess.run(["tc", "qdisc", "del", "dev", "internet", "root"], check=True)
    subprocess.run([*world.internet.enter, "tc", "qdisc", "del", "dev", "eth0", "root"], check=True)
    return out


def streams(world, pid):
    """1 GiB each way through an opened connection: speed, and by how much the process grew at its peak."""
    out = {}
    for name, url, words in (("down", f"https://{BOUND}/gib", ()), ("up", f"https://{BOUND}/up", ("-T", world.work / "gib"))):
        print(f"1 GiB of a bound host, {name}")
        before = report.memory_kib(pid, "VmRSS")
        report.reset_peak_memory(pid)
        out[name] = transfer(world, url, "ours", pid, *words)
        out[name]["growth_mib"] = (report.memory_kib(pid, "VmHWM") - before) / 1024
    return out


def memory(world):
    """Of a new process with sandboxes, with a connection of each of them, and of connections beyond those that idle in it."""
    out, count = {}, 100 if world.options.quick else IDLE
    for name, http2 in (("HTTP/1.1", False), ("HTTP/2", True)):
        print(f"memory, {name}")
        with contextlib.closing(world.start_ours(SANDBOXES)) as ours, contextlib.ExitStack() as open_:
            sizes = [report.memory_kib(ours.pid, "VmRSS")]
            for more in (SANDBOXES, count):
                for each in connections.idle(world, more, SANDBOXES, http2):
                    open_.enter_context(each)
                sizes.append(report.memory_kib(ours.pid, "VmRSS"))
        out[name] = {"sandboxes_mib": sizes[0] / 1024, "used_mib": sizes[1] / 1024, "idle_kib": (sizes[2] - sizes[1]) / count}
    return out


def measure(options, work):
    os.sched_setaffinity(0, {LOAD_CORE})
    wanted = options.only or PARTS
    with contextlib.ExitStack() as stack:
        world = World(options, work, stack)
        data = {}
        with contextlib.closing(world.start_ours(FEW)) as ours:
            world.pids.append(ours.pid)
            if "requests" in wanted:
                servers = {"direct": os.getpid(), "ours": ours.pid, "nginx": world.start_nginx_tls(),
                           "mitmproxy": world.start_mitmproxy()}
                data["requests"] = requests(world, servers)
            if "first" in wanted:
                data["first"] = new_hosts(world, ours)
            if "spliced" in wanted:
                data["spliced"] = spliced(world, ours.pid, world.start_nginx_stream())
            if "streams" in wanted:
                data["streams"] = streams(world, ours.pid)
            world.pids.remove(ours.pid)
        if "memory" in wanted:
            data["memory"] = memory(world)
        data["others"] = statistics.median(world.foreign) if world.foreign else 0
    return data


def judged(data):
    """[target, measured, verdict]."""
    quiet = data["others"] <= report.Foreign.LIMIT
    one, many, speed = data["requests"]["one"], data["requests"]["many"], data["spliced"]
    rows = []

    def judge(what, value, limit, most, unit="", always=False):
        ok = value <= limit if most else value >= limit
        rows.append([what, f"{value:.2f}{unit}", report.verdict(ok, quiet or always)])

    judge("one connection: p50 at most 1.3x nginx's", one["ours"]["p50"] / one["nginx"]["p50"], 1.3, True)
    judge(f"{MANY} connections: p50 at most 1.3x nginx's", many["ours"]["p50"] / many["nginx"]["p50"], 1.3, True)
    judge(f"{MANY} connections: at least 10x mitmproxy's requests/s", many["ours"]["rps"] / many["mitmproxy"]["rps"], 10, False)
    for what in ("handshake", "answer"):
        judge(f"a host that is new: its {what} at most 3 ms later than directly",
              data["first"]["ours"][what] - data["first"]["direct"][what], 3, True, " ms")
    for way in ("down", "up"):
        judge(f"spliced over 1 Gbit/s, {way}: at least 0.90 of direct",
              speed[way]["ours"]["mib_s"] / speed[way]["direct"]["mib_s"], 0.9, False)
    judge("spliced, unshaped: at least 0.90 of nginx `stream`",
          speed["unshaped"]["ours"]["mib_s"] / speed["unshaped"]["nginx stream"]["mib_s"], 0.9, False)
    for name in ("HTTP/1.1", "HTTP/2"):
        judge(f"an idle connection of {name}: at most 64 KiB", data["memory"][name]["idle_kib"], 64, True, " KiB", True)
    judge(f"the process with {SANDBOXES} sandboxes and their vaults: below 16 MiB", data["memory"]["HTTP/1.1"]["sandboxes_mib"],
          16, True, " MiB", True)
    for way in ("down", "up"):
        judge(f"1 GiB {way} through an opened connection: grows by less than 4 MiB", data["streams"][way]["growth_mib"], 4, True,
              " MiB", True)
    return rows


def markdown(data, options):
    if options.only:
        return "```\n" + json.dumps(data, indent=2) + "\n```"

    def of_requests(name):
        group = data["requests"][name]
        return [[way, f"{each['rps']:,.0f}", f"{each['p50']:.3f}", f"{each['p99']:.3f}",
                 "" if way == "direct" else f"{each['cpu_us']:.1f}"] for way, each in group.items()]

    def of_transfers(group):
        return [[way, f"{each['mib_s']:,.0f}", f"{each['cpu_ms_gib']:,.0f}" if way != "direct" else ""]
                for way, each in group.items()]

    titles = ["way", "requests/s", "p50 ms", "p99 ms", "CPU us/request"]
    return "\n\n".join([
        "One core for the interceptors, one for the load and the web server, which is nginx with TLS; all put a header into the "
        f"request and verify the server's certificate. {options.seconds} s per run, median of {options.rounds} interleaved "
        f"rounds. Other programs took {data['others']:.0%} of the machine meanwhile.",
        "`GET /ping` with a 4-byte answer over one kept-alive TLS connection:", report.table(titles, of_requests("one")),
        f"The same over {MANY}:", report.table(titles, of_requests("many")),
        "The first connection to a host, p50 from connect:",
        report.table(["way", "handshake ms", "answer ms"], [[way, f"{each['handshake']:.2f}", f"{each['answer']:.2f}"]
                                                            for way, each in data["first"].items()]),
        "Connections that are passed through, 1 GiB of plain HTTP as fast as it goes:",
        report.table(["way", "MiB/s", "CPU ms/GiB"], of_transfers(data["spliced"]["unshaped"])),
        "The same with TLS of the sandbox's own over a link of 1 Gbit/s, down and up:",
        report.table(["way", "down MiB/s", "up MiB/s"],
                     [[way, f"{data['spliced']['down'][way]['mib_s']:.1f}", f"{data['spliced']['up'][way]['mib_s']:.1f}"]
                      for way in data["spliced"]["down"]]),
        "1 GiB through an opened connection:",
        report.table(["way", "MiB/s", "CPU ms/GiB", "growth MiB"],
                     [[way, f"{each['mib_s']:,.0f}", f"{each['cpu_ms_gib']:,.0f}", f"{each['growth_mib']:.1f}"]
                      for way, each in data["streams"].items()]),
        f"Resident memory of the process: {SANDBOXES} sandboxes with a vault each, the same once each has sent a request over a "
        "connection that stays open, and what each further idle connection adds:",
        report.table(["connections", "sandboxes MiB", "in use MiB", "idle connection KiB"],
                     [[name, f"{each['sandboxes_mib']:.1f}", f"{each['used_mib']:.1f}", f"{each['idle_kib']:.1f}"]
                      for name, each in data["memory"].items()]),
        report.table(["target", "measured", ""], judged(data)),
    ])


def arguments(parser):
    parser.add_argument("--seconds", type=int, default=3, help="of one run of requests")


if __name__ == "__main__":
    harness.main(harness.Part("vault", "Credential vaults", __doc__, measure, markdown, rounds=5, only=PARTS,
                              tools=("wrk", "nginx", "curl", "taskset", "tc", "nft", "openssl"), prepare=prepare,
                              arguments=arguments))
