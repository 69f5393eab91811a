#!/usr/bin/env python3
"""This project beside others that make sandboxes: the same image, the same work, the same load program, in one run.

Peers: this project on its native runtime and on Docker, the original server on Docker, a Docker Engine, runc, runsc,
bwrap. Needs root. Everything is started for the run, in a network namespace of its own.
"""

import pathlib
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness  # noqa: E402
import report  # noqa: E402
import peers  # noqa: E402: beside this file
import tables  # noqa: E402

LIMIT = 180  # seconds for one measurement


def creates(peer, quick):
    """By so many clients at once. After a failure, larger numbers of clients are not tried."""
    plan = {1: 2, 10: 1} if quick else peer.creates
    out, failed = {}, None
    for clients, rounds in plan.items():
        if failed is None:
            try:
                out[str(clients)] = peer.load("create", clients, rounds, timeout=peer.patience)
                continue
            except Exception as error:  # noqa: BLE001: told in the report
                failed = str(error).strip()[:400]
                peer.sweep()
        out[str(clients)] = {"asked": clients * rounds, "failed": clients * rounds, "error": failed}
    return out


def memory(peer, quick):
    out = []
    for count in (5,) if quick else peer.kept:
        peer.start_for_memory()
        out.append(peers.memory_of(peer.load, count, settle=1 if quick else 4))
    return out


def measurements(quick):
    """{name: function(peer)}. Measurements that need a fresh state come last."""
    seconds = 1 if quick else 4

    def ask(*arguments):
        return lambda peer: peer.load(*arguments, timeout=LIMIT)

    return {
        "create": lambda peer: creates(peer, quick),
        "execd": ask("execd", 3 if quick else 20),
        "cycle": lambda peer: peer.load("cycle", 10 if quick else peer.cycles, 8, timeout=LIMIT),
        "commands": ask("commands", seconds, 8),
        "first": ask("first", 200, seconds),
        "stream": ask("stream", 1 if quick else 3, 16 if quick else 128),
        "files": ask("files", 1 if quick else 3, 8 if quick else 64),
        "get": ask("get", seconds, 16),
        "pause": ask("pause", 3 if quick else 20),
        "snapshot": ask("snapshot", 1 if quick else 5, 16),
        "memory": lambda peer: memory(peer, quick),
    }


def busy_share():
    """Of the machine, while nothing of ours has work: others take it."""
    others = report.Foreign([])
    time.sleep(1)
    return others.share()


def measure_peer(peer, wanted, foreign):
    """{measurement: its figures, {"none": why} or {"failed": why}}."""
    out, start = {}, time.monotonic()
    for name, run in wanted.items():
        if name in peer.none:
            out[name] = {"none": peer.none[name]}
            continue
        if time.monotonic() - start > peer.seconds:
            out[name] = {"failed": f"no time left after {peer.seconds} s"}
            continue
        foreign.append(busy_share())
        begin = time.monotonic()
        try:
            out[name] = run(peer)
        except Exception as error:  # noqa: BLE001: told in the report; the others go on
            out[name] = {"failed": f"{type(error).__name__}: {str(error).strip()[:400]}"}
            peer.sweep()
        print(f"  {peer.name:9} {name:9} {time.monotonic() - begin:6.1f} s  {tables.brief(name, out[name])}", flush=True)
    return out


def measure(options, work):
    wanted = {name: run for name, run in measurements(options.quick).items() if name not in (options.without or ())}
    if options.only:
        wanted = {name: run for name, run in wanted.items() if name in options.only}
    site = peers.Site(options, work)
    out, foreign = {}, []
    try:
        for name in options.peers:
            peer = peers.ALL[name](site)
            out[name] = {"label": peer.label}
            try:
                peer.start()
                peer.load("create", 1, 1, timeout=LIMIT)  # what is done once has been done
                out[name]["measured"] = measure_peer(peer, wanted, foreign)
            except Exception as error:  # noqa: BLE001: as above
                out[name]["failed"] = f"{type(error).__name__}: {str(error).strip()[:400]}"
                print(f"  {name}: {out[name]['failed']}", flush=True)
            finally:
                peer.close()
    finally:
        site.close()
    return {"peers": out, "others": statistics.median(foreign) if foreign else 0, "versions": versions(),
            "failures": tables.failures(out)}


def versions():
    """Of the peers that are not ours."""
    def first_line(*command):
        return subprocess.run(command, capture_output=True, text=True).stdout.split("\n")[0]

    requirement = (pathlib.Path(__file__).parent / "requirements.txt").read_text().split("\n")[-2]
    return {"engine": first_line("dockerd", "--version").split(",")[0], "original": requirement.replace("==", " "),
            "runc": first_line("runc", "--version"), "runsc": first_line("runsc", "--version"),
            "bwrap": first_line("bwrap", "--version")}


def prepare():
    """While there is a network. Without one the original server is missing, and the others are measured."""
    subprocess.run([harness.ROOT / "scripts" / "python-env", "bench/peers/requirements.txt",
                    peers.ORIGINAL.relative_to(harness.ROOT)])


def arguments(parser):
    parser.add_argument("--peers", nargs="+", choices=list(peers.ALL), default=list(peers.ALL))
    parser.add_argument("--without", nargs="+", choices=peers.EVERYTHING, help="leave these measurements out")


if __name__ == "__main__":
    harness.main(harness.Part(
        "peers", "Side by side", __doc__, measure, tables.markdown, rounds=1, only=peers.EVERYTHING,
        tools=("dockerd", "docker", "busybox", "runc", "runsc", "bwrap"), prepare=prepare, arguments=arguments))
