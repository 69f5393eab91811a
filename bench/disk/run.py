#!/usr/bin/env python3
"""What a limit on the disk of every sandbox costs a create: sandboxes without one, with a btrfs quota group in a disk image, and
with an image file each; in turns.

Needs root. Starts three sandboxds with directories of their own, in a network namespace of their own. Takes two minutes.
"""

import contextlib
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import fixtures  # noqa: E402
import harness  # noqa: E402
import report  # noqa: E402

MEANS = {"plain": {},
         "btrfs": {"disk": {"image_bytes": 16 << 30}},
         "files": {"disk": {"image_files": True}, "sandbox": {"default_disk_bytes": 1 << 30}}}


def measure(options, work):
    root = work / "root"
    fixtures.make_root(root)
    found, shares = {}, []
    with contextlib.ExitStack() as daemons:
        for name, settings in MEANS.items():
            (work / name).mkdir()
            daemon = daemons.enter_context(contextlib.closing(fixtures.sandboxd(work / name, root, {
                **settings, "network": {"subnet": f"10.{81 + len(found)}.0.0/16", "table": f"osb_{name}",
                                        "interface_prefix": f"o{name}-"}})))
            load = harness.Load(options.build / "bin" / "bench_native_load", daemon.run / "sandboxd.sock", fixtures.IMAGE,
                                log=daemon.log)
            load("create", 3, 50)
            found[name] = {"load": load, "pid": daemon.pid, "create": [], "per_s": []}
        for number in range(options.rounds):
            others = report.Foreign([each["pid"] for each in found.values()])
            first = number % len(found)  # no means is always the first of a round
            for each in [*found.values()][first:] + [*found.values()][:first]:
                each["create"].append(each["load"]("create", 40, 50))
                each["per_s"].append(each["load"]("cycle", 5, 6)["per_s"])
            shares.append(others.share())
            print(f"  round {number + 1}: " + ", ".join(
                f"{name} {each['create'][-1]['p50']:.2f} ms, {each['per_s'][-1]:.0f}/s" for name, each in found.items()) +
                f", others {shares[-1]:.0%}", flush=True)
    return {"others": statistics.median(shares), "means": {
        name: {"p50": statistics.median(run["p50"] for run in each["create"]),
               "p99": statistics.median(run["p99"] for run in each["create"]),
               "remove_p50": statistics.median(run["remove_p50"] for run in each["create"]),
               "per_s": statistics.median(each["per_s"])} for name, each in found.items()}}


def markdown(data, options):
    quiet = data["others"] <= report.Foreign.LIMIT
    plain, btrfs, files = (data["means"][name] for name in MEANS)

    def row(what, unit, digits):
        return [what, *(f"{each[unit]:.{digits}f}" for each in (plain, btrfs, files))]

    def judged(what, value, target, ok):
        return [what, value, target, report.verdict(ok, quiet)]

    rate = btrfs["per_s"] / plain["per_s"]
    figures = report.table(["", "no limit", "btrfs quota group", "image file each"], [
        row("create → execd answered, p50, ms", "p50", 2), row("p99", "p99", 2), row("remove, p50, ms", "remove_p50", 2),
        row("create + remove sustained, per second", "per_s", 0)])
    targets = report.table(["target", "measured", "", ""], [
        judged("create with a btrfs quota group, p50", f"{btrfs['p50'] - plain['p50']:+.2f} ms", "≤ +0.5 ms",
               btrfs["p50"] <= plain["p50"] + 0.5),
        judged("create + remove with it", f"{rate:.0%}", "≥ 85%", rate >= 0.85),
        judged("create with an image file, p50, while those made ahead last", f"{files['p50'] - plain['p50']:+.2f} ms", "≤ +1.5 ms",
               files["p50"] <= plain["p50"] + 1.5)])
    return (f"{figures}\n\n{targets}\n\nMedians of {options.rounds} rounds in turns. Creates are spaced 50 ms apart, so that what is made "
            f"ahead is there; creates and removes without a pause, by six clients, make it on the way. Others took {data['others']:.0%} "
            "of the machine.")


if __name__ == "__main__":
    harness.main(harness.Part("disk", "Disk limits", __doc__, measure, markdown, tools=("busybox", "mkfs.btrfs", "mkfs.ext4")))
