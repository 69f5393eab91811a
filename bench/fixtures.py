"""Roots and bundles that several parts measure with."""

import io
import json
import shutil
import statistics
import subprocess
import tarfile

IMAGE = "bench.local/busybox:1"
APPLETS = ("sh", "echo", "sleep", "cat", "ls", "true")
EXECD = ["/bin/execd", "--listen-fd", "3"]  # in roots that have it
STAY = ["sh", "-c", "echo first; exec sleep 1000000"]


def make_root(directory):
    """busybox and its applets: the smallest root that can run a shell. /lines is 1 MiB of 80-byte lines."""
    (directory / "bin").mkdir(parents=True)
    for name in ("etc", "tmp", "proc", "sys", "dev", "root"):
        (directory / name).mkdir()
    shutil.copy(shutil.which("busybox"), directory / "bin" / "busybox")
    for name in APPLETS:
        (directory / "bin" / name).symlink_to("busybox")
    (directory / "lines").write_bytes((b"x" * 79 + b"\n") * ((1 << 20) // 80 + 1))


def root_archive(directory):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.add(directory, ".")
    return out.getvalue()


def import_root(engine, directory):
    """As IMAGE into a container engine."""
    repository, _, tag = IMAGE.rpartition(":")
    engine.ask("POST", "/images/create", params={"fromSrc": "-", "repo": repository, "tag": tag},
               content=root_archive(directory), headers={"Content-Type": "application/x-tar"})


def sandboxd(directory, root, settings=None):
    """A daemon that has the root as IMAGE."""
    from sandboxd_process import Sandboxd
    images = {"allowed_directories": [str(root)]}
    daemon = Sandboxd(directory=directory, settings={"daemon": {"log_level": "warn"}, "images": images,
                                                     **(settings or {})})
    added = daemon.client.post("/v1/images/add-directory", params={"path": str(root), "name": IMAGE})
    if added.status_code != 200:
        daemon.close()
        raise RuntimeError(added.text)
    return daemon


def oci_bundle(bundle, root, command):
    """A bundle as `runc spec` proposes it, on a read-only root, with a network namespace that has loopback only."""
    bundle.mkdir()
    subprocess.run(["runc", "spec"], cwd=bundle, check=True)
    config = json.loads((bundle / "config.json").read_text())
    config["root"] = {"path": str(root), "readonly": True}
    config["process"]["args"] = list(command)
    config["process"]["terminal"] = False
    (bundle / "config.json").write_text(json.dumps(config))
    return bundle


def creates_in_turns(program, daemons, rounds):
    """Medians over the rounds of creates 50 ms apart, and of creates and removes without a pause by six clients: {name: figures}.
    Also the share of the machine that other programs took."""
    import harness
    import report
    loads = {name: harness.Load(program, daemon.run / "sandboxd.sock", IMAGE, log=daemon.log) for name, daemon in daemons.items()}
    creates, cycles, shares = {name: [] for name in daemons}, {name: [] for name in daemons}, []
    for load in loads.values():
        load("create", 3, 50)
    for number in range(rounds):
        others = report.Foreign([daemon.pid for daemon in daemons.values()])
        first = number % len(loads)  # none is always the first of a round
        for name in [*loads][first:] + [*loads][:first]:
            creates[name].append(loads[name]("create", 40, 50))
            cycles[name].append(loads[name]("cycle", 5, 6)["per_s"])
        shares.append(others.share())
        print(f"  round {number + 1}: " + ", ".join(f"{name} {creates[name][-1]['p50']:.2f} ms, {cycles[name][-1]:.0f}/s"
                                                   for name in loads) + f", others {shares[-1]:.0%}", flush=True)
    figures = {name: {key: statistics.median(run[key] for run in creates[name]) for key in ("p50", "p99", "remove_p50")} |
               {"per_s": statistics.median(cycles[name])} for name in daemons}
    return figures, statistics.median(shares)


CREATES = (("create → execd answered, p50, ms", "p50", 2), ("p99", "p99", 2), ("remove, p50, ms", "remove_p50", 2),
           ("create + remove sustained, per second", "per_s", 0))


def creates_table(figures, titles):
    """Of creates_in_turns(): a column each."""
    import report
    return report.table(["", *titles], [[what, *(f"{each[key]:.{digits}f}" for each in figures.values())]
                                        for what, key, digits in CREATES])
