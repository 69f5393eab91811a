#!/usr/bin/env python3
"""Unpacking a layer of Debian's size: ours against GNU tar with the same compressor, side by side on this disk.

The tree is what this machine's Debian packages installed, the base system first. The layer is read from the page cache,
every run unpacks into a new directory, without a sync; the variants take turns within every round and the median of
the rounds counts. tar keeps owners, modes and attributes, as an unpacked layer must; ours also computes the two SHA-256
sums of the layer.
"""

import functools
import os
import pathlib
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness  # noqa: E402
import report  # noqa: E402

FORMATS = {"plain": [], "gzip": ["--gzip"], "zstd": ["--zstd"]}


def package_files(limit):
    """Files of installed Debian packages, those of the base system first, up to `limit` bytes of content."""
    shown = subprocess.run(["dpkg-query", "-W", "-f", "${Priority} ${binary:Package}\n"], capture_output=True, text=True,
                           check=True).stdout.split("\n")
    priorities = ["required", "important", "standard", "optional"]
    packages = [line.split(" ", 1)[1] for priority in priorities for line in sorted(shown)
                if line.startswith(priority + " ")]
    total, chosen = 0, {}
    for package in packages:
        listed = subprocess.run(["dpkg", "-L", package], capture_output=True, text=True, check=True).stdout.split("\n")
        for name in listed:
            if not name.startswith("/usr/") or name in chosen or not os.path.lexists(name):
                continue
            chosen[name] = None
            if os.path.isfile(name) and not os.path.islink(name):
                total += os.path.getsize(name)
        if total > limit:
            break
    return [name.lstrip("/") for name in chosen]


def make_layers(directory, limit):
    names = directory / "names"
    names.write_text("\n".join(package_files(limit)) + "\n")
    layers = {}
    for form, options in FORMATS.items():
        layers[form] = directory / f"layer.{form}"
        subprocess.run(["tar", "-C", "/", "--no-recursion", "--format=pax", "--sort=name", "--xattrs", "-T", names,
                        *options, "-cf", layers[form]], check=True)
    return layers


class Bench:
    def __init__(self, options, directory):
        self.options = options
        self.dir = pathlib.Path(directory)
        self.bin = pathlib.Path(options.build) / "bin"
        self.foreign = []
        self.count = 0

    def unpack(self, who, form, layer):
        self.count += 1
        target = self.dir / f"target-{self.count}"
        if who == "tar":
            target.mkdir()
            command = ["tar", "--xattrs", "--xattrs-include=*", "--numeric-owner", *FORMATS[form], "-C", target, "-xpf",
                       layer]
        else:
            command = [self.bin / "bench_image_unpack", layer, target]
        before = os.times()
        begin = time.monotonic()
        subprocess.run(command, check=True)
        seconds = time.monotonic() - begin
        after = os.times()
        cpu = after.children_user - before.children_user + after.children_system - before.children_system
        # Writes that one run has left must not slow the next one. Nothing is removed before the end: ext4 searches long
        # for an inode while many were freed a moment ago.
        os.sync()
        return {"s": seconds, "cpu": cpu}

    def run(self):
        layers = make_layers(self.dir, self.options.megabytes << 20)
        entries = len((self.dir / "names").read_text().split("\n")) - 1
        results = {}
        for form, layer in layers.items():
            print(form)
            self.unpack("ours", form, layer)  # into the page cache
            variants = {who: functools.partial(self.unpack, who, form, layer) for who in ("tar", "ours")}
            seen = {}
            results[form] = report.rounds(self.options.rounds, variants, [], self.foreign, seen)
            results[form]["times faster"] = statistics.median(
                tar["s"] / ours["s"] for tar, ours in zip(seen["tar"], seen["ours"]))
        return {"formats": results, "entries": entries, "bytes": layers["plain"].stat().st_size,
                "others": statistics.median(self.foreign)}


def measure(options, work):
    return Bench(options, work).run()


def markdown(data, options):
    quiet = data["others"] <= report.Foreign.LIMIT
    rows, targets = [], []
    for form, group in data["formats"].items():
        tar, ours, times = group["tar"], group["ours"], group["times faster"]
        rows.append([form, f"{tar['s']:.2f}", f"{ours['s']:.2f}", f"{times:.2f}", f"{tar['cpu']:.2f}",
                     f"{ours['cpu']:.2f}"])
        targets.append([f"{form}: at least as fast as tar", f"{times:.2f}x", report.verdict(times >= 1, quiet)])
    return "\n\n".join([
        f"A layer of {data['entries']:,} entries, {data['bytes'] / 1e6:,.0f} MB as plain tar, unpacked on the disk that "
        f"holds the temporary directory; medians of {options.rounds} interleaved rounds, also of the ratio. Other programs took "
        f"{data['others']:.0%} of the machine meanwhile.",
        report.table(["layer", "tar s", "ours s", "times faster", "tar CPU s", "ours CPU s"], rows),
        report.table(["target", "measured", ""], targets),
    ])


def arguments(parser):
    parser.add_argument("--megabytes", type=int, default=100)


if __name__ == "__main__":
    harness.main(harness.Part("image", "Unpacking layers", __doc__, measure, markdown, namespace=False, on_disk=True,
                              arguments=arguments))
