#!/usr/bin/env python3
"""Runs the parts of the benchmark one after the other and writes docs/benchmarks.md.

A part that fails is told in the report, and the others go on; the exit code is 1 then. An interrupt ends the part that
runs, with everything that it has started, and the report is written from what there is.
"""

import argparse
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import compose  # noqa: E402
import harness  # noqa: E402
import report  # noqa: E402

PARTS = ("http", "execd", "image", "native", "server", "lifecycle", "disk", "docker", "egress", "vault", "policies", "cli", "code",
         "peers")
LIMITS = {"peers": 20 * 60, "vault": 10 * 60}  # seconds; others have LIMIT
LIMIT = 6 * 60
QUICK = {"http": ["--seconds", "1"], "vault": ["--seconds", "1"], "egress": ["--seconds", "0.3"], "image": ["--megabytes", "10"],
         "server": ["--commands", "1000"], "cli": ["--runs", "10", "--mib", "64"],
         "code": ["--runs", "30"]}


class Interrupted(Exception):
    pass


def run_part(name, options):
    """True if it ended well. Its result, also that it failed, is in options.out."""
    words = ["--quick", *QUICK.get(name, [])] if options.quick else []
    command = [sys.executable, "-B", harness.ROOT / "bench" / name / "run.py", "--build", options.build, "--out",
               options.out, *words]
    (options.out / f"{name}.json").unlink(missing_ok=True)
    begin = time.monotonic()
    # A session of its own: an interrupt from the terminal reaches it once, from here.
    process = subprocess.Popen(command, start_new_session=True, stdin=subprocess.DEVNULL)
    failed, interrupted = None, False
    try:
        code = process.wait(LIMITS.get(name, LIMIT))
        failed = f"it ended with {code}" if code else None
    except subprocess.TimeoutExpired:
        failed = f"it took longer than {LIMITS.get(name, LIMIT)} s"
    except KeyboardInterrupt:
        failed, interrupted = "interrupted", True
    finally:
        end(process)
        harness.clean_up(process.pid)
        shutil.rmtree(harness.directory_of(process.pid), ignore_errors=True)
    if failed and not (options.out / f"{name}.json").exists():
        report.write(options.out, {"name": name, "title": name, "machine": report.machine(), "failed": failed,
                                   "command": f"bench/{name}/run.py", "seconds": round(time.monotonic() - begin, 1)})
    if interrupted:
        raise Interrupted
    return not failed


def end(process):
    """SIGINT first, so that the part cleans up after itself."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(90)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def run(options):
    harness.adopt_orphans()
    failed = []
    begin = time.monotonic()
    try:
        with harness.interruptible():
            for name in options.parts:
                print(f"== {name}, {(time.monotonic() - begin) / 60:.1f} minutes after the start", flush=True)
                if not run_part(name, options):
                    failed.append(name)
                    print(f"== {name} FAILED", flush=True)
    except (Interrupted, KeyboardInterrupt):
        failed.append("interrupted")
    print(f"== {(time.monotonic() - begin) / 60:.1f} minutes", flush=True)
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=harness.ROOT / "build" / "release")
    parser.add_argument("--out", type=pathlib.Path, help="results; default bench/results, or build/bench/quick")
    parser.add_argument("--page", type=pathlib.Path, help="default docs/benchmarks.md; with --quick in --out")
    parser.add_argument("--quick", action="store_true", help="one round of few: to see that it works, not for figures")
    parser.add_argument("--report", action="store_true", help="write the page from results that are there")
    parser.add_argument("parts", nargs="*", default=PARTS, help=f"of {', '.join(PARTS)}")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    if os.geteuid() != 0 and not options.report:
        parser.error("needs root")
    options.build = options.build.resolve()
    results = harness.ROOT / "build" / "bench" / "quick" if options.quick else harness.RESULTS
    options.out = (options.out or results).resolve()
    page = options.page or (options.out if options.quick else harness.ROOT / "docs") / "benchmarks.md"
    options.out.mkdir(parents=True, exist_ok=True)
    failed = [] if options.report else run(options)
    found = report.read(options.out)
    if not found:
        sys.exit(f"no results in {options.out}")
    compose.write(found, page)
    print(f"{report.without_root(page)} written" + (f"; failed: {', '.join(failed)}" if failed else ""), flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
