#!/usr/bin/env python3
"""Creates of this build beside those of an earlier one, in turns: bench/builds/run.py --before DIR, where DIR has the earlier
bin/sandboxd and bin/execd.

Needs root. Starts a sandboxd of each, in a network namespace of their own. `make bench` leaves it out; two minutes.
"""

import contextlib
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import fixtures  # noqa: E402
import harness  # noqa: E402
import report  # noqa: E402

MOST = 1.05  # of the earlier create


def measure(options, work):
    root = work / "root"
    fixtures.make_root(root)
    with contextlib.ExitStack() as stack:
        daemons = {}
        for name, build in (("before", options.before), ("now", options.build)):
            (work / name).mkdir()
            network = {"subnet": f"10.{81 + len(daemons)}.0.0/16", "table": f"osb_{name}", "interface_prefix": f"o{name}-"}
            os.environ.update({f"{program.upper()}_BINARY": str(build / "bin" / program) for program in ("sandboxd", "execd")})
            daemons[name] = stack.enter_context(contextlib.closing(
                fixtures.sandboxd(work / name, root, {"network": network})))
        figures, others = fixtures.creates_in_turns(options.build / "bin" / "bench_native_load", daemons, options.rounds)
    return {"others": others, "builds": figures}


def markdown(data, options):
    quiet = data["others"] <= report.Foreign.LIMIT
    before, now = data["builds"]["before"], data["builds"]["now"]
    create, rate = now["p50"] / before["p50"], now["per_s"] / before["per_s"]
    targets = report.table(["what", "measured", "target", ""], [
        ["create, p50", f"{create:.0%} of before", f"≤ {MOST:.0%}", report.verdict(create <= MOST, quiet)],
        ["create + remove sustained", f"{rate:.0%} of before", f"≥ {1 / MOST:.0%}", report.verdict(rate >= 1 / MOST, quiet)],
    ])
    table = fixtures.creates_table(data["builds"], ["before", "now"])
    return (f"{table}\n\n{targets}\n\nMedians of {options.rounds} rounds in turns. Others took {data['others']:.0%} of the "
            "machine.")


if __name__ == "__main__":
    harness.main(harness.Part("builds", "This build beside an earlier one", __doc__, measure, markdown, tools=("busybox",),
                              arguments=lambda parser: parser.add_argument(
                                  "--before", type=pathlib.Path, required=True, help="directory with the earlier bin/")))
