#!/usr/bin/env python3
"""Sandboxes of sandboxd beside `runc run` and `docker run`: the same busybox image and command, in one run.

Needs root. Starts a sandboxd and a dockerd of its own, with their own directories, in a network namespace of their own.
"""

import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import fixtures  # noqa: E402
import harness  # noqa: E402
import report  # noqa: E402


def percentiles(samples):
    samples = sorted(samples)
    return {"p50": statistics.median(samples), "p99": samples[min(len(samples) - 1, int(len(samples) * 0.99))],
            "count": len(samples)}


def timed(command):
    begin = time.monotonic()
    out = subprocess.run(command, capture_output=True, text=True)
    if out.returncode != 0 or "first" not in out.stdout:
        raise RuntimeError(f"{' '.join(command)}: {out.stdout}{out.stderr}")
    return (time.monotonic() - begin) * 1000


def load(options, daemon, *arguments, name=fixtures.IMAGE):
    return harness.Load(options.build / "bin" / "bench_native_load", daemon.run / "sandboxd.sock", name,
                        log=daemon.log)(*arguments)


def used_kib():
    """Memory in use, after the kernel has dropped its caches."""
    os.sync()
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")
    fields = dict(line.split(":") for line in pathlib.Path("/proc/meminfo").read_text().splitlines())
    return sum(int(fields[name].split()[0]) * sign
               for name, sign in (("MemTotal", 1), ("MemFree", -1), ("Buffers", -1), ("Cached", -1)))


def memory(options, daemon, count):
    load(options, daemon, "cycle", 1, 2)
    before = used_kib()
    load(options, daemon, "keep", count, 4)
    after = used_kib()
    daemon.remove_all()
    return {"sandboxes": count, "kib_each": (after - before) / count}


def measure(options, work):
    from docker_engine import Engine
    root = work / "root"
    fixtures.make_root(root)
    out, foreign = {}, []
    (work / "d").mkdir()
    daemon = fixtures.sandboxd(work / "d", root)
    try:
        bundle = fixtures.oci_bundle(work / "bundle", root, ["echo", "first"])
        data = work / "docker"
        data.mkdir()
        with contextlib.closing(Engine(data=data, host_image=False)) as dockerd:
            docker = ["docker", "-H", dockerd.url]
            fixtures.import_root(dockerd, root)
            ours, first, runc, engine = [], [], [], []
            for number in range(options.rounds):
                others = report.Foreign([daemon.pid])
                ours.append(load(options, daemon, "create", 40, 50))
                first.append(load(options, daemon, "command", 40, 50))
                foreign.append(others.share())
                for i in range(8):
                    runc.append(timed(["runc", "--root", str(work / "runc"), "run", "-b", str(bundle),
                                       f"bench-{number}-{i}"]))
                for _ in range(4):
                    engine.append(timed([*docker, "run", "--rm", "--network=none", fixtures.IMAGE, "echo", "first"]))
                print(f"  round {number + 1}: create {ours[-1]['p50']:.2f} ms, with a command "
                      f"{first[-1]['p50']:.2f} ms, runc {statistics.median(runc):.0f} ms, docker "
                      f"{statistics.median(engine):.0f} ms, others {foreign[-1]:.0%}", flush=True)
            out["create"] = {key: statistics.median(each[key] for each in ours) for key in ("p50", "p90", "p99", "remove_p50")}
            out["command"] = {key: statistics.median(each[key] for each in first) for key in ("p50", "p90", "p99")}
            out["runc"], out["docker"] = percentiles(runc), percentiles(engine)
        out["without_slots"] = without_slots(options, work, root)
        bursts = []
        for _ in range(3):
            daemon.client.get("/v1/info")
            time.sleep(2)  # the pool of slots fills up again
            bursts.append(load(options, daemon, "burst", 100)["all_ms"])
        out["burst_ms"] = statistics.median(bursts)
        others = report.Foreign([daemon.pid])
        out["cycle"] = load(options, daemon, "cycle", 10, 6)
        foreign.append(others.share())
        print(f"  100 at once {out['burst_ms']:.0f} ms; {out['cycle']['per_s']:.0f} creates and removes per second",
              flush=True)
        out["from_snapshot"] = from_snapshot(options, daemon)
        out["memory"] = memory(options, daemon, 500)
        print(f"  {out['memory']['kib_each']:.0f} KiB for each of 500 idle sandboxes", flush=True)
    finally:
        daemon.close()
    out["snapshots"] = snapshots(options, work)
    return {**out, "others": statistics.median(foreign)}


def without_slots(options, work, root):
    """Creates of a daemon that keeps no network slots: namespace, veth, address and rules are made in the create."""
    (work / "w").mkdir()
    network = {"ready_slots": 0, "subnet": "10.80.0.0/16", "table": "osb_noslots", "interface_prefix": "onoslots-"}
    with contextlib.closing(fixtures.sandboxd(work / "w", root, {"network": network})) as daemon:
        load(options, daemon, "create", 3, 50)
        runs = [load(options, daemon, "create", 40, 50) for _ in range(options.rounds)]
    return {key: statistics.median(each[key] for each in runs) for key in ("p50", "p90", "p99")}


def snapshots(options, work):
    """100 MB in files of three sizes: a snapshot beside `cp -a` of the same directory, each until it is safe on disk."""
    done = subprocess.run([options.build / "bin" / "bench_snapshot", work, str(options.rounds)], capture_output=True,
                          text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    out = [json.loads(line) for line in done.stdout.splitlines()]
    for each in out:
        print(f"  snapshot of {each['shape']} on {each['where']}: {each['total_ms']:.0f} ms, frozen "
              f"{each['frozen_ms']:.0f} ms, `cp -a` {each['cp_ms']:.0f} ms, synced {each['cp_synced_ms']:.0f} ms",
              flush=True)
    return out


def from_snapshot(options, daemon):
    """Creates from a snapshot in turns with creates from its image."""
    load(options, daemon, "keep", 1, 1)
    (sandbox,) = daemon.list()
    snapshot = str(uuid.uuid4())
    taken = daemon.client.post(f"/v1/sandboxes/{sandbox['id']}/snapshots", json={"id": snapshot})
    if taken.status_code != 201:
        raise RuntimeError(taken.text)
    daemon.remove_all()
    image, again = [], []
    for _ in range(options.rounds):
        image.append(load(options, daemon, "create", 40, 50)["p50"])
        again.append(load(options, daemon, "create-from", 40, 50, name=snapshot)["p50"])
    assert daemon.client.delete(f"/v1/snapshots/{snapshot}").status_code == 204
    return {"image_p50": statistics.median(image), "snapshot_p50": statistics.median(again)}


def markdown(out, options):
    quiet = out["others"] <= report.Foreign.LIMIT

    def row(what, value, target, ok):
        return [what, value, target, report.verdict(ok, quiet)]

    create, bare, command, runc, docker = (out[name] for name in
                                           ("create", "without_slots", "command", "runc", "docker"))
    rows = [
        row("create → execd answered, p50", f"{create['p50']:.2f} ms", "≤ 4 ms", create["p50"] <= 4),
        row("p99", f"{create['p99']:.2f} ms", "≤ 12 ms", create["p99"] <= 12),
        row("the same, network slot made in the create, p50", f"{bare['p50']:.2f} ms", "≤ 5 ms", bare["p50"] <= 5),
        row("p99", f"{bare['p99']:.2f} ms", "≤ 20 ms", bare["p99"] <= 20),
        row("remove, p50", f"{create['remove_p50']:.2f} ms", "≤ 3 ms", create["remove_p50"] <= 3),
        row("`runc run`, p50", f"{runc['p50']:.1f} ms, {runc['p50'] / create['p50']:.1f}×", "≥ 6×",
            runc["p50"] >= 6 * create["p50"]),
        row("`docker run`, p50", f"{docker['p50']:.0f} ms, {docker['p50'] / create['p50']:.0f}×", "≥ 50×",
            docker["p50"] >= 50 * create["p50"]),
        row("create → first command's output, p50 / p99", f"{command['p50']:.2f} / {command['p99']:.2f} ms", "", True),
        row("100 creates at once, all answered", f"{out['burst_ms']:.0f} ms", "≤ 500 ms", out["burst_ms"] <= 500),
        row("create + remove sustained", f"{out['cycle']['per_s']:.0f}/s", "≥ 300/s", out["cycle"]["per_s"] >= 300),
        row("an idle sandbox, all told, of 500", f"{out['memory']['kib_each'] / 1024:.2f} MiB", "≤ 1.5 MiB",
            out["memory"]["kib_each"] <= 1536),
    ]
    again = out["from_snapshot"]
    rows.append(row("create from a snapshot, p50", f"{again['snapshot_p50']:.2f} ms", "as from its image: "
                    f"{again['image_p50']:.2f} ms, ≤ 1.1×", again["snapshot_p50"] <= 1.1 * again["image_p50"]))
    for each in out["snapshots"]:
        total, frozen, copy = each["total_ms"], each["frozen_ms"], each["cp_synced_ms"]
        what = f"snapshot of {each['shape']}, frozen"
        if each["where"] == "here":
            rows.append(row(what, f"{total:.0f} ms, {frozen:.0f} ms",
                            f"≤ 1.2× `cp -a` and sync: {copy:.0f} ms; `cp -a` alone: {each['cp_ms']:.0f} ms",
                            total <= 1.2 * copy and frozen <= 1.2 * copy))
        elif "10 MiB" in each["shape"]:
            rows.append(row(f"{what}, reflinks of {each['where']}", f"{total:.0f} ms, {frozen:.0f} ms", "≤ 100 ms",
                            total <= 100))
        else:  # making the files takes most of it, reflinks or not
            rows.append([f"{what}, reflinks of {each['where']}", f"{total:.0f} ms, {frozen:.0f} ms",
                         f"reported; `cp -a` and sync: {copy:.0f} ms", ""])
    return (report.table(["what", "measured", "target", ""], rows) +
            f"\n\nCreates are spaced 50 ms apart; others took {out['others']:.0%} of the machine.")


if __name__ == "__main__":
    harness.main(harness.Part("native", "Native sandboxes", __doc__, measure, markdown,
                              tools=("dockerd", "docker", "runc", "busybox")))
