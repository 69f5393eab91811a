"""The report of bench/peers: figures as tables, and the plots that go with them."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import plots  # noqa: E402
import report  # noqa: E402

# Okabe and Ito's colours, which the colour-blind can tell apart; ours are the strong ones.
COLOURS = {"native": "#0072B2", "docker": "#56B4E9", "engine": "#E69F00", "original": "#D55E00", "runc": "#009E73",
           "runsc": "#CC79A7", "bwrap": "#7F7F7F"}
SHORT = {"native": "native", "docker": "ours on Docker", "engine": "Docker Engine", "original": "original on Docker",
         "runc": "runc", "runsc": "runsc", "bwrap": "bwrap"}


def number(value):
    """Three digits that matter."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def triple(samples):
    return " / ".join(number(samples[key]) for key in ("p50", "p95", "p99"))


def p50(samples):
    return number(samples["p50"])


def dig(peer, *keys):
    """The figure, or nothing."""
    found = peer.get("measured", {})
    for key in keys:
        if not isinstance(found, (dict, list)) or (isinstance(found, dict) and key not in found):
            return None
        found = found[key]
    return found


def cell(peer, name, *keys, show=number):
    """A figure; a dash and a word where there is none."""
    if "failed" in peer:
        return "failed"
    part = dig(peer, name)
    if isinstance(part, dict) and "none" in part:
        return f"– ({part['none']})"
    if part is None:
        return "–"
    if isinstance(part, dict) and "failed" in part:
        return "failed"
    value = dig(peer, name, *keys)
    return "–" if value is None else show(value)


def brief(name, part):
    """For the progress on the terminal."""
    if isinstance(part, dict) and "failed" in part:
        return f"FAILED {part['failed']}"
    if name == "create":
        return ", ".join(f"{clients}: {p50(each['output'])} ms" if "output" in each else f"{clients}: {each['error']}"
                         for clients, each in part.items())
    if name == "memory":
        return ", ".join(f"{each['sandboxes']}: {each['kib_each'] / 1024:.2f} MiB" for each in part)
    flat = {**part, **{f"{k} p50": v["p50"] for k, v in part.items() if isinstance(v, dict)}}
    return ", ".join(f"{key} {number(value)}" for key, value in flat.items()
                     if isinstance(value, (int, float)) and key not in ("count", "p90", "p95"))


def create_table(peers, clients):
    rows = []
    base = dig(peers.get("native", {}), "create", clients, "output", "p50")
    for name, peer in peers.items():
        part = dig(peer, "create", clients)
        if part is None:
            rows.append([peer["label"], *(["failed"] if "failed" in peer or dig(peer, "create", "failed") else ["–"]),
                         "", "", "", "", ""])
            continue
        first = part.get("output")
        rows.append([
            peer["label"],
            p50(part["started"]) if "started" in part else "–",
            triple(part["running"]) if "running" in part else "–",
            p50(part["answered"]) if "answered" in part else cell(peer, "execd", "p50") if clients == "1" else "–",
            triple(first) if first else "–",
            f"{first['p50'] / base:.1f}×" if first and base else "–",
            f"{part['asked'] - part['failed']} of {part['asked']}",
        ])
    return report.table(["", "process started", "running", "execd answered", "first output", "× native", "succeeded"],
                        rows)


def failures(peers):
    """A line for each peer or measurement that there are no figures of."""
    lines = [f"{peer['label']}: {one_line(peer['failed'])}" for peer in peers.values() if "failed" in peer]
    for peer in peers.values():
        lines += [f"{peer['label']}, {name}: {one_line(part['failed'])}" for name, part in peer.get("measured", {}).items()
                  if isinstance(part, dict) and "failed" in part]
    return lines


def lost_creates(peers):
    lines = []
    for peer in peers.values():
        for clients, each in (dig(peer, "create") or {}).items():
            if isinstance(each, dict) and each.get("failed"):
                lines.append(f"{peer['label']}, {each['failed']} of {each['asked']} creates by {clients}: "
                             f"{one_line(each['error'])}")
    return lines


def one_line(text):
    text = " ".join(text.split()).replace("|", "/")
    return report.without_root(text if len(text) < 240 else text[:240] + " …")


def markdown(data, options):
    peers, versions = data["peers"], data["versions"]
    sizes = sorted({clients for peer in peers.values() for clients, each in (dig(peer, "create") or {}).items()
                    if isinstance(each, dict)}, key=int)
    parts = [
        f"One image (busybox and 1 MiB of text), one load program (`bench/peers/load.cc`: C++, a thread per client, "
        f"blocking calls), one peer after the other. {versions['engine']}, {versions['runc']}, {versions['runsc']}, "
        f"{versions['bwrap']}, {versions['original']}. Others took {data['others']:.0%} of the machine meanwhile.",
        "- **this project**, **original server**: `POST /v1/sandboxes`, then `echo first` by the server's proxy and execd. "
        "The original's own execd image could not be had: it stages *ours*. `process started` is the moment that the "
        "engine or sandboxd has noted.\n"
        "- **Docker Engine**: create, attach and start by its API, which is quicker than the `docker` program. First "
        "output is that of the container's own process: no exec.\n"
        "- **runc**, **runsc**: `run --detach` of a bundle; **bwrap**: `--unshare-all`. One shared read-only root and no "
        "network, which is less work than a writable root, an address and a firewall as the others have. First output "
        "is that of the process itself.\n"
        "- These have no execd: where one could be started in them instead of the shell, `execd answered` is from 20 "
        "creates of that kind, one at a time (runsc takes no socket along).\n"
        "- Warm caches: images are unpacked, each peer has been used before its figures count, except where a fresh daemon "
        f"is part of the measurement (memory). sandboxd keeps {128} network slots ready.",
        "![create to first output](plots/create.svg)",
    ]
    for clients in sizes:
        what = "One at a time, 50 ms apart" if clients == "1" else f"{clients} at once"
        parts += [f"**Create, {what.lower()}** (ms; p50, or p50 / p95 / p99)", create_table(peers, clients)]
    parts += [
        "**Use** (8 clients for commands, 16 for `GET` of a sandbox or container, on the same cores as what they ask)",
        report.table(
            ["", "commands/s", "first byte ms, p50", "p99", "stream MB/s", "upload MB/s", "download MB/s",
             "API requests/s"],
            [[peer["label"], cell(peer, "commands", "per_s"), cell(peer, "first", "p50"), cell(peer, "first", "p99"),
              cell(peer, "stream", "mb_s"), cell(peer, "files", "up_mb_s"), cell(peer, "files", "down_mb_s"),
              cell(peer, "get", "per_s")] for peer in peers.values()]),
        "Streams are 128 MiB of 80-byte lines printed by `cat`, which execd sends as one JSON event per line; files are "
        "64 MiB (a tar archive for the Engine). bwrap's stream includes its start.",
        "![throughput](plots/throughput.svg)",
        "**Life** (create + remove by 8 clients until the process runs; a snapshot has 16 MiB of changes; restore until the "
        "first output)",
        report.table(
            ["", "create + remove /s", "pause ms, p50", "resume ms, p50", "snapshot ms, p50", "restore ms, p50",
             "idle sandbox MiB"],
            [[peer["label"], cell(peer, "cycle", "per_s"), cell(peer, "pause", "pause", "p50"),
              cell(peer, "pause", "resume", "p50"), cell(peer, "snapshot", "snapshot", "p50"),
              cell(peer, "snapshot", "restore", "p50"), memory_cell(peer)] for peer in peers.values()]),
        "Memory is what the whole machine has less of: processes, page tables, slab, shared memory; page cache that can "
        "be given up does not count, nor do daemons that were there before.",
        "![memory of an idle sandbox](plots/memory.svg)",
    ]
    if lines := failures(peers) + lost_creates(peers):
        parts += ["Failed:", "\n".join(f"- {line}" for line in lines)]
    return "\n\n".join(parts)


def memory_cell(peer):
    return cell(peer, "memory", show=str) if not isinstance(dig(peer, "memory"), list) else ", ".join(
        f"{number(each['kib_each'] / 1024)} (of {each['sandboxes']:,})" for each in dig(peer, "memory"))


def draw(data, directory):
    """Writes the plots; deterministic."""
    peers = data["peers"]
    sizes = sorted({clients for peer in peers.values() for clients, each in (dig(peer, "create") or {}).items()
                    if isinstance(each, dict)}, key=int)
    series = []
    for name, peer in peers.items():
        values = []
        for clients in sizes:
            first = dig(peer, "create", clients, "output")
            values.append((first["p50"], first["p99"]) if first else None)
        series.append((SHORT[name], COLOURS[name], values))
    plots.grouped_bars(directory / "create.svg", "Create to first output",
                       "milliseconds, logarithmic; bar: p50, line: up to p99", series,
                       ["1 client" if size == "1" else f"{size} at once" for size in sizes])

    def bars(*keys):
        out = []
        for name, peer in peers.items():
            value = dig(peer, *keys)
            out.append((SHORT[name], COLOURS[name], value if isinstance(value, (int, float)) and value > 0 else None))
        return out

    memory = []
    for name, peer in peers.items():
        for each in dig(peer, "memory") if isinstance(dig(peer, "memory"), list) else []:
            memory.append((f"{SHORT[name]}, {each['sandboxes']:,} running", COLOURS[name],
                           each["kib_each"] / 1024 if each["kib_each"] > 0 else None))
    plots.panels(directory / "memory.svg", [("Memory of an idle sandbox", "MiB, logarithmic", memory)])
    plots.panels(directory / "throughput.svg", [
        ("Create and remove", "per second, logarithmic", bars("cycle", "per_s")),
        ("Commands in a sandbox", "per second, logarithmic", bars("commands", "per_s")),
        ("Output of a command", "MB/s, logarithmic", bars("stream", "mb_s")),
        ("GET of a sandbox", "requests per second, logarithmic", bars("get", "per_s")),
    ])
