"""The head of docs/benchmarks.md: every target with what was measured, and how many times better than each peer."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "peers"))
import report  # noqa: E402
import tables  # noqa: E402

# Shown where a target is missed or cannot be measured; kept by hand.
WHY = {}


class Missing(Exception):
    """Why there is no figure."""


class Results:
    """The results of all parts of a run."""

    def __init__(self, results):
        self.results = results

    def data(self, name):
        result = self.results.get(name)
        if result is None:
            raise Missing("not part of this run")
        if "failed" in result:
            raise Missing(f"bench/{name} failed")
        return result["data"]

    def native(self, *keys):
        """A figure of ours on the native runtime, of the side-by-side run."""
        peer = self.data("peers")["peers"].get("native", {})
        value = tables.dig(peer, *keys)
        if value is None:
            raise Missing("failed or left out in bench/peers")
        return value

    def execd(self, section, figure, variant, key):
        return self.data("execd")["sections"][section]["figures"][figure][variant][key]


def _rows(found):
    """(key, what, part, figure function, unit, limit, "most" or "least")."""
    native, server, execd = (lambda: found.data("native")), (lambda: found.data("server")), found.execd

    def memory_at(count):
        sizes = {each["sandboxes"]: each["kib_each"] / 1024 for each in found.native("memory")}
        if count not in sizes:
            raise Missing(f"only with {', '.join(map(str, sizes))} sandboxes")
        return sizes[count]

    return [
        ("create", "native create → execd answers, p50", "native", lambda: native()["create"]["p50"], "ms", 4, "most"),
        ("create99", "p99", "native", lambda: native()["create"]["p99"], "ms", 12, "most"),
        ("bare", "the same, network made in the create, p50", "native", lambda: native()["without_slots"]["p50"], "ms", 5,
         "most"),
        ("bare99", "p99", "native", lambda: native()["without_slots"]["p99"], "ms", 20, "most"),
        ("api", "API create → first command's output, p50", "server", lambda: server()["creates"]["command"]["p50"],
         "ms", 8, "most"),
        ("api99", "p99", "server", lambda: server()["creates"]["command"]["p99"], "ms", 30, "most"),
        ("claim", "claim of a pre-built sandbox (the SDK's pool), p50", "server", lambda: server()["claims"]["p50"], "ms",
         1, "most"),
        ("remove", "remove, p50", "native", lambda: native()["create"]["remove_p50"], "ms", 3, "most"),
        ("cycle", "create + remove sustained", "native", lambda: native()["cycle"]["per_s"], "/s", 300, "least"),
        ("memory", "an idle sandbox, of 500", "peers", lambda: memory_at(500), "MiB", 1.5, "most"),
        ("pause", "pause, through the API, p50", "peers", lambda: found.native("pause", "pause", "p50"), "ms", 10, "most"),
        ("resume", "resume, p50", "peers", lambda: found.native("pause", "resume", "p50"), "ms", 10, "most"),
        ("ping", "execd: requests/s of one core", "execd", lambda: execd("ping", "/ping", "execd", "rps"), "/s", 50_000,
         "least"),
        ("raw", "a bare route, of raw epoll's requests/s", "http",
         lambda: found.data("http")["ping"]["ours"]["rps"] / found.data("http")["ping"]["raw epoll"]["rps"] * 100, "%", 60,
         "least"),
        ("commands", "execd: commands/s on 2 cores, load included", "execd",
         lambda: execd("commands", "16 clients", "execd", "per_s"), "/s", 700, "least"),
        ("first", "execd: command → first byte, by the server's proxy, p50", "peers", lambda: found.native("first", "p50"),
         "ms", 1.5, "most"),
        ("text", "execd: text of one core", "execd", lambda: execd("output", "1 GiB of lines", "execd", "mb_s"), "MB/s",
         200, "least"),
        ("lines", "in lines", "execd", lambda: execd("output", "1 GiB of lines", "execd", "lines_s"), "/s", 500_000,
         "least"),
        ("down", "download, of a sendfile loop", "execd",
         lambda: 100 * execd("download", "download", "execd", "mb_s") / execd("download", "download", "sendfile", "mb_s"),
         "%", 70, "least"),
        ("up", "upload, of `nc` into `dd` on the same disk", "execd",
         lambda: 100 * execd("upload", "upload", "execd", "mb_s") / execd("upload", "upload", "nc | dd", "mb_s"), "%", 80,
         "least"),
        ("size", "execd's file", "execd", lambda: found.data("execd")["sections"]["idle"]["figures"]["file_mib"], "MiB", 4,
         "most"),
        ("rss", "execd's resident memory after a request", "execd",
         lambda: found.data("execd")["sections"]["idle"]["figures"]["memory"]["asked"]["rss"], "MiB", 3, "most"),
    ]


def targets(results):
    found, rows = Results(results), []
    for key, what, part, figure, unit, limit, kind in _rows(found):
        sign = "≤" if kind == "most" else "≥"
        target = f"{sign} {limit:,} {unit}"
        try:
            value = figure()
        except Missing as missing:
            rows.append([what, "–", target, "", f"not measured: {missing}"])
            continue
        except KeyError as error:
            rows.append([what, "–", target, "", f"not measured: no {error} in bench/{part}"])
            continue
        ok = value <= limit if kind == "most" else value >= limit
        # Sizes do not depend on what others do.
        quiet = key in ("size", "rss") or found.data(part)["others"] <= report.Foreign.LIMIT
        judged = report.verdict(ok, quiet)
        if not ok and quiet:
            judged += f": {WHY.get(key, 'see bench/' + part + ' below')}"
        rows.append([what, f"{tables.number(value)} {unit}", target, f"{value / limit:.2f}×", judged])
    return report.table(["target", "measured", "wanted", "of it", ""], rows)


def ratios(results):
    """How many times better than each peer the native runtime was."""
    peers = results.get("peers", {}).get("data", {}).get("peers", {})
    ours = peers.get("native", {})
    sizes = [size for size in ("1", "10", "50", "100") if tables.dig(ours, "create", size, "output")]
    columns = [(f"first output, {'one' if size == '1' else size + ' at once'}", ("create", size, "output", "p50"), False)
               for size in sizes]
    columns += [("create + remove /s", ("cycle", "per_s"), True), ("commands/s", ("commands", "per_s"), True),
                ("stream", ("stream", "mb_s"), True), ("API requests/s", ("get", "per_s"), True)]
    rows = []
    for name, peer in peers.items():
        if name == "native":
            continue
        row = [peer["label"]]
        for _, keys, more_is_better in columns:
            mine, theirs = tables.dig(ours, *keys), tables.dig(peer, *keys)
            row.append(f"{tables.number(mine / theirs if more_is_better else theirs / mine)}×" if mine and theirs else "–")
        mine, theirs = tables.dig(ours, "memory"), tables.dig(peer, "memory")
        both = isinstance(mine, list) and isinstance(theirs, list) and mine[0]["kib_each"] > 0
        row.append(f"{tables.number(theirs[0]['kib_each'] / mine[0]['kib_each'])}×" if both else "–")
        rows.append(row)
    return report.table(["native is better than", *(title for title, _, _ in columns), "memory"], rows) if rows else ""
