"""docs/benchmarks.md and its plots from the newest results of all parts (bench/results/*.json)."""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "peers"))
import report  # noqa: E402
import summary  # noqa: E402
import tables  # noqa: E402

ORDER = ("peers", "native", "server", "lifecycle", "disk", "docker", "egress", "vault", "policies", "execd", "http", "image", "cli",
         "code")

EXTRA = ("builds",)  # where somebody has run it

HEAD = """# Benchmarks

Written by `make bench`, which measures everything side by side on the machine it runs on (`make bench QUICK=1`: a few
minutes, to see that it works). Ratios travel between machines, absolute figures do not. Raw numbers are in
`bench/results/*.json`, from which `bench/run.py --report` writes this page again; `bench/run.py PART` measures one part. Where other programs took more than a
tenth of the machine during a part, its targets are not judged."""


def order(results):
    return [*ORDER, *(name for name in EXTRA if name in results)]


def _machine(results):
    machines = {f"{each['cpu']}, {each['cores']} cores, {each['memory_gib']} GiB of memory, Linux {each['kernel']}": None
                for name in ORDER if name in results and (each := results[name]["machine"])}
    return "; ".join(machines) + ". Caches are warm unless a part says otherwise."


def _parts(results):
    rows = []
    for name in order(results):
        result = results.get(name)
        if result is None:
            rows.append([f"bench/{name}", "", "", "", "", "", "", "not run"])
            continue
        others = result.get("data", {}).get("others")
        rows.append([f"[{result['title']}](#{anchor(result['title'])})", f"`{result['command']}`",
                     result["machine"]["commit"], result["machine"]["date"], f"{result['seconds']:.0f} s", result["machine"]["load"],
                     "" if others is None else f"{others:.0%}", "**failed**" if "failed" in result else ""])
    return report.table(["part", "command", "commit", "day", "took", "load at its start", "others took", ""], rows)


def anchor(title):
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def _section(result):
    body = result.get("markdown", "")
    if "failed" in result:
        body = f"Failed in this run, so there are no figures: {tables.one_line(result['failed'])}"
    return f"## {result['title']}\n\n{body.strip()}"


def page(results):
    """The text of the page."""
    parts = [HEAD, _machine(results), _parts(results), "## Targets", summary.targets(results)]
    if ratios := summary.ratios(results):
        parts += ["How many times better the native runtime was than others in the same run; below 1 it was worse. "
                  "Memory is that of 100 sandboxes against 50 of the others.", ratios]
    parts += [_section(results[name]) for name in order(results) if name in results]
    return "\n\n".join(parts) + "\n"


def write(results, path):
    """The page, and the plots in a directory beside it."""
    directory = path.parent / "plots"
    directory.mkdir(parents=True, exist_ok=True)
    path.write_text(page(results))
    if "data" in results.get("peers", {}):
        tables.draw(results["peers"]["data"], directory)
