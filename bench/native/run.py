#!/usr/bin/env python3
"""Sandboxes of sandboxd beside `runc run` and `docker run`: the same busybox image and command, in one run.

Needs root. Starts a sandboxd and a dockerd of its own, with their own directories, in a network namespace of their own.
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "support"))
import report  # noqa: E402

IMAGE = "bench.local/busybox:1"


def make_root(directory):
    """busybox and its applets: the smallest root that can run a shell."""
    (directory / "bin").mkdir(parents=True)
    for name in ("etc", "tmp", "proc", "sys", "dev", "root"):
        (directory / name).mkdir()
    shutil.copy("/bin/busybox", directory / "bin" / "busybox")
    for name in ("sh", "echo", "sleep", "cat", "ls", "true"):
        (directory / "bin" / name).symlink_to("busybox")


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


def runc_bundle(directory, root):
    bundle = directory / "bundle"
    bundle.mkdir()
    subprocess.run(["runc", "spec"], cwd=bundle, check=True)
    config = json.loads((bundle / "config.json").read_text())
    config["root"] = {"path": str(root), "readonly": True}
    config["process"]["args"] = ["echo", "first"]
    config["process"]["terminal"] = False
    (bundle / "config.json").write_text(json.dumps(config))
    return bundle


def load(options, daemon, *arguments, name=IMAGE):
    out = subprocess.run([options.build / "bin" / "bench_native_load", daemon.run / "sandboxd.sock", name,
                          *map(str, arguments)], capture_output=True, text=True)
    if out.returncode != 0:
        raise RuntimeError(out.stderr + daemon.log()[-2000:])
    return json.loads(out.stdout)


def used_kib():
    """What is not available any more, after caches that nobody needs have been given up."""
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


def measure(options, work, foreign):
    os.environ.setdefault("SANDBOXD_BINARY", str(options.build / "bin" / "sandboxd"))
    os.environ.setdefault("EXECD_BINARY", str(options.build / "bin" / "execd"))
    from docker_engine import Engine
    from sandboxd_process import Sandboxd
    root = work / "root"
    make_root(root)
    out = {}
    daemon = Sandboxd(directory=work / "d", settings={"images": {"allowed_directories": [str(root)]}})
    try:
        response = daemon.client.post("/v1/images/add-directory", params={"path": str(root), "name": IMAGE})
        assert response.status_code == 200, response.text
        bundle = runc_bundle(work, root)
        data = work / "docker"
        data.mkdir()
        with contextlib.closing(Engine(data=data, host_image=False)) as dockerd:
            docker = ["docker", "-H", dockerd.url]
            tar = subprocess.Popen(["tar", "-C", root, "-c", "."], stdout=subprocess.PIPE)
            subprocess.run([*docker, "import", "-", "bench:1"], stdin=tar.stdout, check=True, capture_output=True)
            tar.wait()
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
                    engine.append(timed([*docker, "run", "--rm", "--network=none", "bench:1", "echo", "first"]))
                print(f"  round {number + 1}: create {ours[-1]['p50']:.2f} ms, with a command "
                      f"{first[-1]['p50']:.2f} ms, runc {statistics.median(runc):.0f} ms, docker "
                      f"{statistics.median(engine):.0f} ms, others {foreign[-1]:.0%}", flush=True)
            out["create"] = {key: statistics.median(each[key] for each in ours) for key in ("p50", "p90", "p99")}
            out["command"] = {key: statistics.median(each[key] for each in first) for key in ("p50", "p90", "p99")}
            out["runc"], out["docker"] = percentiles(runc), percentiles(engine)
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
    return out


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


def markdown(out, foreign):
    quiet = statistics.median(foreign) <= report.Foreign.LIMIT

    def row(what, value, target, ok):
        return [what, value, target, report.verdict(ok, quiet)]

    create, command, runc, docker = (out[name] for name in ("create", "command", "runc", "docker"))
    rows = [
        row("create → execd answered, p50", f"{create['p50']:.2f} ms", "≤ 4 ms", create["p50"] <= 4),
        row("p99", f"{create['p99']:.2f} ms", "≤ 12 ms", create["p99"] <= 12),
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
            f"\n\nCreates are spaced 50 ms apart; others took {statistics.median(foreign):.0%} of the machine.")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default=str(report.ROOT / "build" / "release"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-publish", action="store_true", help="print only")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.build = pathlib.Path(options.build).resolve()
    if os.geteuid() != 0:
        parser.error("needs root")
    if not options.inside:
        in_namespace = report.ROOT / "tests" / "privileged" / "in_namespace"
        subprocess.run([report.ROOT / "scripts" / "python-env"], check=True)  # httpx
        python = report.ROOT / "build" / "venv" / "bin" / "python"
        os.execv(in_namespace, [in_namespace, python, *sys.argv, "--inside"])
    for tool in ("dockerd", "runc", "busybox"):
        if not shutil.which(tool):
            parser.error(f"{tool} is missing: scripts/setup bench")
    where = report.machine()
    foreign = []
    with tempfile.TemporaryDirectory(prefix="osb-") as work:
        (pathlib.Path(work) / "d").mkdir()
        out = measure(options, pathlib.Path(work), foreign)
    text = markdown(out, foreign)
    print("\n" + text)
    if not options.no_publish:
        report.publish("native", "Native sandboxes", "make bench", where, text, out)


if __name__ == "__main__":
    main()
