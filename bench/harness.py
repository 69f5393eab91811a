"""Shared by the parts of `make bench` (bench/*/run.py): command line, a place to run in, an end without leftovers."""

import argparse
import contextlib
import ctypes
import dataclasses
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import typing

ROOT = pathlib.Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"  # of every part, the newest; in git, so that one part can be measured anew
sys.path.insert(0, str(ROOT / "tests" / "support"))
import report  # noqa: E402

PR_SET_CHILD_SUBREAPER = 36


@dataclasses.dataclass
class Part:
    """One section of the report.

    measure(options, work) gives what is written to bench/results/NAME.json, "others" (the share of the machine that other
    programs took) among it, and "failures" if some of it failed; markdown(data, options) is its section. `options` has
    build, rounds, quick, only, and what `arguments(parser)` adds.
    """

    name: str
    title: str
    description: str
    measure: typing.Callable
    markdown: typing.Callable
    rounds: int = 5
    only: tuple = ()  # names of what it measures, if that can be chosen
    root: bool = True
    namespace: bool = True  # a network namespace of its own, and Python with the packages of tests
    on_disk: bool = False  # its directory is below build/, not where temporary files usually are
    tools: tuple = ()
    prepare: typing.Callable = lambda: None  # before it enters its namespace, where there is no network
    arguments: typing.Callable = lambda parser: None


def _parse(part):
    parser = argparse.ArgumentParser(description=part.description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release", help="what is measured")
    parser.add_argument("--out", type=pathlib.Path, default=RESULTS, help="where the result goes")
    parser.add_argument("--rounds", type=int, default=part.rounds)
    parser.add_argument("--quick", action="store_true", help="one round of few: to see that it works")
    parser.add_argument("--no-publish", action="store_true", help="print only")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    if part.only:
        parser.add_argument("--only", nargs="+", choices=part.only, help="print only these")
    part.arguments(parser)
    options = parser.parse_args()
    options.only = getattr(options, "only", None)
    options.build, options.out = options.build.resolve(), options.out.resolve()
    if options.quick:
        options.rounds = 1
    if part.root and os.geteuid() != 0:
        parser.error("needs root")
    if missing := [tool for tool in part.tools if not shutil.which(tool)]:
        parser.error(f"{', '.join(missing)} missing: scripts/setup bench")
    return options


def main(part):
    """Runs the part from its command line. A failure is part of the result too, and the exit code."""
    options = _parse(part)
    if part.namespace and not options.inside:
        subprocess.run([ROOT / "scripts" / "python-env"], check=True)
        part.prepare()
        in_namespace = ROOT / "tests" / "privileged" / "in_namespace"
        python = ROOT / "build" / "venv" / "bin" / "python"
        os.execv(in_namespace, [in_namespace, python, "-B", *sys.argv, "--inside"])
    for name, program in (("EXECD", "execd"), ("SANDBOXD", "sandboxd"), ("SERVER", "opensandbox-server")):
        os.environ.setdefault(f"{name}_BINARY", str(options.build / "bin" / program))
    words = [word for word in sys.argv[1:] if word != "--inside"]
    result = {"name": part.name, "title": part.title, "machine": report.machine(),
              "command": " ".join([f"bench/{part.name}/run.py", *map(report.without_root, words)])}
    begin = time.monotonic()
    adopt_orphans()
    try:
        with interruptible(), _directory(part) as work:
            result["data"] = part.measure(options, work)
            result["markdown"] = part.markdown(result["data"], options)
            print("\n" + result["markdown"], flush=True)
    except KeyboardInterrupt:
        result["failed"] = "interrupted"
    except Exception as error:  # noqa: BLE001: every error goes into the report
        traceback.print_exc()
        result["failed"] = f"{type(error).__name__}: {str(error).strip()[:600]}"
    finally:
        clean_up(os.getpid())
    result["seconds"] = round(time.monotonic() - begin, 1)
    if not options.no_publish and not options.only:
        report.write(options.out, result)
    sys.exit(1 if "failed" in result or result["data"].get("failures") else 0)


def directory_of(pid):
    """Where a part works. Short, because sockets lie in it; known, so that it can be removed if the part cannot."""
    return pathlib.Path(tempfile.gettempdir()) / f"osb-{pid}"


@contextlib.contextmanager
def _directory(part):
    path = ROOT / "build" / "bench" / f"osb-{os.getpid()}" if part.on_disk else directory_of(os.getpid())
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def interruptible():
    """SIGTERM and SIGINT are a KeyboardInterrupt, once: what follows is cleaning up and is not disturbed."""
    def stop(*_):
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    yield


def adopt_orphans():
    """Orphans of our children become our children, so that clean_up() finds them."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def clean_up(pid):
    """Ends all children of this process, and removes the cgroups that fixtures of process `pid` have made."""
    parents = [path for mount in ("", "*/") for path in pathlib.Path("/sys/fs/cgroup").glob(f"{mount}osb-test-{pid}-*")]
    for parent in parents:
        for state in parent.glob("**/freezer.state"):  # what is frozen cannot be killed
            with contextlib.suppress(OSError):
                state.write_text("THAWED")
    while left := _children():
        for child in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        for child in left:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, 0)
    for parent in parents:
        for path in [*sorted(parent.glob("**/"), reverse=True), parent]:
            with contextlib.suppress(OSError):
                path.rmdir()


def _children():
    text = "".join(path.read_text() for path in pathlib.Path("/proc/self/task").glob("*/children"))
    return [int(pid) for pid in text.split()]


class Load:
    """A load program: each run gives what its line of JSON says."""

    def __init__(self, program, *arguments, log=lambda: "", prefix=()):
        self.command = [*prefix, program, *arguments]
        self.log = log

    def __call__(self, *arguments, timeout=None):
        what = " ".join(map(str, arguments))
        # Files, not pipes: what a peer has left behind may hold an end of them, for ever.
        with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as errors:
            try:
                code = subprocess.run([*map(str, self.command), *map(str, arguments)], stdout=said, stderr=errors,
                                      stdin=subprocess.DEVNULL, timeout=timeout).returncode
            except subprocess.TimeoutExpired:
                raise TimeoutError(f"{what}: not done within {timeout} s") from None
            for file in (said, errors):
                file.seek(0)
            if code != 0:
                raise RuntimeError(f"{what}: {errors.read().strip()[-500:]} {self.log()[-2000:]}".strip())
            return json.load(said)
