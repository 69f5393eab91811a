#!/usr/bin/env python3
"""What a limit on the disk of every sandbox costs a create: sandboxes without one, with a btrfs quota group in a disk image, and
with an image file each; in turns.

Needs root. Starts three sandboxds with directories of their own, in a network namespace of their own. Takes two minutes.
"""

import contextlib
import pathlib
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
    with contextlib.ExitStack() as stack:
        daemons = {}
        for name, settings in MEANS.items():
            (work / name).mkdir()
            network = {"subnet": f"10.{81 + len(daemons)}.0.0/16", "table": f"osb_{name}", "interface_prefix": f"o{name}-"}
            daemons[name] = stack.enter_context(contextlib.closing(
                fixtures.sandboxd(work / name, root, {**settings, "network": network})))
        figures, others = fixtures.creates_in_turns(options.build / "bin" / "bench_native_load", daemons, options.rounds)
    return {"others": others, "means": figures}


def markdown(data, options):
    quiet = data["others"] <= report.Foreign.LIMIT
    plain, btrfs, files = (data["means"][name] for name in MEANS)

    def row(what, value, target, ok):
        return [what, value, target, report.verdict(ok, quiet)]

    rate = btrfs["per_s"] / plain["per_s"]
    targets = report.table(["what", "measured", "target", ""], [
        row("create with a btrfs quota group, p50", f"{btrfs['p50'] - plain['p50']:+.2f} ms", "≤ +0.5 ms",
            btrfs["p50"] <= plain["p50"] + 0.5),
        row("create + remove with it", f"{rate:.0%}", "≥ 85%", rate >= 0.85),
        row("create with an image file, p50, while those made ahead last", f"{files['p50'] - plain['p50']:+.2f} ms", "≤ +1.5 ms",
            files["p50"] <= plain["p50"] + 1.5)])
    table = fixtures.creates_table(data["means"], ["no limit", "btrfs quota group", "image file each"])
    return (f"{table}\n\n{targets}\n\nMedians of {options.rounds} rounds in turns. Creates are spaced 50 ms apart, so that what is "
            "made ahead is there; creates and removes without a pause, by six clients, make it on the way. Others took "
            f"{data['others']:.0%} of the machine.")


if __name__ == "__main__":
    harness.main(harness.Part("disk", "Disk limits", __doc__, measure, markdown, tools=("busybox", "mkfs.btrfs", "mkfs.ext4")))
