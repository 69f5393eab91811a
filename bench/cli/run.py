#!/usr/bin/env python3
"""osb beside curl and execd's load generator: how long it takes to start, what it adds to a call and to a command, how
fast it moves a large file.

Needs root. Starts a sandboxd and a server of its own, in a network namespace of their own. hyperfine measures whole
processes, osb and the others in turns.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness  # noqa: E402
import report  # noqa: E402

MIB = 1 << 20


def hyperfine(commands, runs, env, work):
    """Milliseconds of each command, the median, by name."""
    out = work / "hyperfine.json"
    words = [word for name, command in commands.items() for word in ("-n", name, command)]
    done = subprocess.run(["hyperfine", "-N", "--style", "none", "--warmup", "5", "--runs", str(runs), "--export-json",
                           str(out), *words], env=env, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return {each["command"]: each["median"] * 1000 for each in json.loads(out.read_text())["results"]}


class Bench:
    def __init__(self, options, work):
        from sandboxd_process import Sandboxd
        from server_process import Server
        self.osb = options.build / "bin" / "osb"
        self.load = options.build / "bin" / "bench_execd_load"
        self.work = work
        (work / "sandboxd").mkdir()
        self.daemon = Sandboxd(directory=work / "sandboxd", settings={"daemon": {"log_level": "warn"}})
        self.server = Server(self.daemon)
        self.id = self.server.create()["id"]
        self.address = self.daemon.list()[0]["address"]
        token = self.server.token(self.id)
        self.token = " ".join(f"-H '{name}: {value}'" for name, value in token.items())
        self.bare_token = next(iter(token.values()), "none")
        self.env = {**os.environ, "HOME": str(work), "OPEN_SANDBOX_API_KEY": self.server.key,
                    "OPEN_SANDBOX_DOMAIN": f"127.0.0.1:{self.server.port}"}

    @property
    def pids(self):
        return [self.daemon.pid, self.server.process.pid]

    def start(self, options):
        return hyperfine({"version": f"{self.osb} --version"}, options.runs, self.env, self.work)

    def get(self, options):
        url = f"{self.server.url}/v1/sandboxes/{self.id}"
        return hyperfine({"curl": f"curl -s -f -o /dev/null -H 'OPEN-SANDBOX-API-KEY: {self.server.key}' {url}",
                          "osb": f"{self.osb} sandbox get {self.id} -o json"}, options.runs, self.env, self.work)

    def command(self, options):
        """The same command by curl straight at execd, which spares it the look-up of the address."""
        body = self.work / "command.json"
        body.write_text(json.dumps({"command": "true"}))
        url = f"http://{self.address}:44772/command"
        return hyperfine({"curl": f"curl -s -f -o /dev/null {self.token} -H 'Content-Type: application/json' "
                                  f"--data-binary @{body} {url}",
                          "osb": f"{self.osb} command run {self.id} -- true"}, options.runs, self.env, self.work)

    def copy(self, options):
        """A file of options.mib MiB out of the sandbox and into it, in MiB/s. The yardstick is the client that measures
        execd: plain sockets, one request. Out of the sandbox it writes what it gets to the same disk, as osb does."""
        self.server.run(self.id, f"head -c {options.mib * MIB} /dev/zero > /tmp/big")
        local, execd = self.work / "big", f"{self.address}:44772"
        down, up = "/files/download?path=/tmp/big", "/tmp/back"
        times = hyperfine({"load down": f"{self.load} get {execd} {self.bare_token} {down} {local}",
                           "curl down": f"curl -s -f -o {local} {self.token} http://{execd}{down}",
                           "osb down": f"{self.osb} cp {self.id}:/tmp/big {local}",
                           "load up": f"{self.load} upload {execd} {self.bare_token} {up} {options.mib * MIB}",
                           "osb up": f"{self.osb} cp {local} {self.id}:{up}"}, 3, self.env, self.work)
        return {name: options.mib / (ms / 1000) for name, ms in times.items()}

    def close(self):
        self.server.close()
        self.daemon.close()


def measure(options, work):
    bench, foreign = Bench(options, work), []
    try:
        variants = {"start": lambda: bench.start(options), "get": lambda: bench.get(options),
                    "command": lambda: bench.command(options), "copy": lambda: bench.copy(options)}
        variants = {name: run for name, run in variants.items() if not options.only or name in options.only}
        out = report.rounds(options.rounds, variants, bench.pids, foreign)
        return {**out, "others": statistics.median(foreign)}
    finally:
        bench.close()


def markdown(out, options):
    quiet = out["others"] <= report.Foreign.LIMIT
    rows = []

    def row(what, value, target, ok):
        rows.append([what, value, target, report.verdict(ok, quiet)])

    if part := out.get("start"):
        row("`osb --version`", f"{part['version']:.2f} ms", "< 10 ms", part["version"] < 10)
    for name, what in (("get", "`osb sandbox get` above curl"), ("command", "`osb command run -- true` above curl at execd")):
        if part := out.get(name):
            added = part["osb"] - part["curl"]
            row(what, f"{added:+.2f} ms ({part['osb']:.2f} against {part['curl']:.2f})", "≤ 5 ms", added <= 5)
    if part := out.get("copy"):
        def copied(what, way, more=""):
            share = part[f"osb {way}"] / part[f"load {way}"]
            row(what, f"{part[f'osb {way}']:,.0f} MiB/s, {share:.0%} of {part[f'load {way}']:,.0f}{more}",
                "≥ 80% of execd's load generator", share >= 0.8)

        copied(f"`osb cp` of {options.mib} MiB out of a sandbox", "down", f"; curl: {part['curl down']:,.0f}")
        copied("into it", "up")
    return (report.table(["what", "measured", "target", ""], rows) +
            f"\n\nWhole processes, medians of {options.rounds} rounds; others took {out['others']:.0%} of the machine. `osb cp` is "
            "compared with the client of execd's own benchmark, in turns and on the same disk, straight at the sandbox: out "
            "of it that one writes to a file, too; into it, it sends from memory where osb reads a file.")


def arguments(parser):
    parser.add_argument("--runs", type=int, default=100, help="of each command in a round")
    parser.add_argument("--mib", type=int, default=1024, help="size of the file that is copied")


if __name__ == "__main__":
    harness.main(harness.Part("cli", "osb", __doc__, measure, markdown, rounds=3,
                              only=("start", "get", "command", "copy"), tools=("hyperfine", "curl"),
                              arguments=arguments))
