#!/usr/bin/env python3
"""Code contexts: from the request to the end of the stream, beside a Jupyter server that the same client drives through the
same execd; Node, Bash, Java and Go beside their bare programs; output rate; memory; a sandbox's way to its first result.

Needs root. The client is this program (http.client over one connection), so the numbers hold its own time too.
"""

import http.client
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness  # noqa: E402
import report  # noqa: E402

PLAIN_PATH = "/usr/local/go/bin:/usr/local/bin:/usr/bin:/bin"  # not the shims of version managers
GO = 'package main\n\nimport "fmt"\n\nfunc main() {{ fmt.Println({}) }}\n'  # never the same twice: `go run` keeps what it has built
JSHELL = """import jdk.jshell.*;
public class Bare {
  public static void main(String[] args) {
    JShell shell = JShell.builder().executionEngine("local").build();
    for (SnippetEvent event : shell.eval("1 + 1")) System.out.println(event.value());
    System.exit(0);
  }
}
"""


class Client:
    """An execd: contexts and runs over one connection."""

    def __init__(self, env=None, port=None, headers=None):
        self.execd, self.headers = None, headers or {}
        if port is None:
            from execd_process import Execd
            self.execd = Execd(env={"PATH": PLAIN_PATH, "JUPYTER_HOST": None, **(env or {})})
            port = self.execd.port
        address, port = port if isinstance(port, tuple) else ("127.0.0.1", port)
        self.http = http.client.HTTPConnection(address, port, timeout=120)

    def call(self, method, path, body=None):
        self.http.request(method, path, json.dumps(body) if body is not None else None, self.headers)
        answer = self.http.getresponse()
        return answer.status, answer.read()

    def run(self, code, language, context=None):
        status, body = self.call("POST", "/code", {"code": code, "context": {"id": context, "language": language}})
        if status != 200 or b'"error"' in body:
            raise RuntimeError(f"{language}: {body[:500]!r}")
        return body

    def new(self, language):
        status, body = self.call("POST", "/code/context", {"language": language})
        if status != 200:
            raise RuntimeError(f"{language}: {body[:500]!r}")
        return json.loads(body)["id"]

    def delete(self, context):
        self.call("DELETE", f"/code/contexts/{context}")

    def close(self):
        self.http.close()
        if self.execd:
            self.execd.stop()


def timed(function):
    begun = time.perf_counter()
    function()
    return (time.perf_counter() - begun) * 1000


def median(function, count):
    return statistics.median(timed(function) for _ in range(count))


def first_result(client, code, language, count):
    """Milliseconds from the request for a context to the end of its first run, the median."""
    contexts = []

    def first():
        contexts.append(client.new(language))
        client.run(code, language, contexts[-1])

    took = median(first, count)
    for context in contexts:
        client.delete(context)
    return took


def proportional_size(pid):
    """KiB, pages that processes share counted once among them."""
    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    return 0


class Bench:
    def __init__(self, options, work):
        self.options, self.work = options, work
        self.client = Client()
        self.jupyter = None
        (work / "go").mkdir()
        (work / "Bare.java").write_text(JSHELL)

    def python(self):
        """Contexts that are started, then contexts that are forked, then a warm one."""
        fresh = []
        for _ in range(max(1, self.options.runs // 60)):
            own = Client()
            fresh.append(first_result(own, "1+1", "python", 1))
            own.close()
        context = self.client.new("python")
        self.client.run("1+1", "python", context)
        warm = median(lambda: self.client.run("1+1", "python", context), self.options.runs)
        self.client.delete(context)
        forked = first_result(self.client, "1+1", "python", max(3, self.options.runs // 10))
        return {"warm": warm, "fresh": statistics.median(fresh), "forked": forked}

    def java_first(self):
        """The first Java context of an execd, which compiles the driver."""
        own = Client()
        try:
            return first_result(own, "1 + 1", "java", 1)
        finally:
            own.close()

    def beside_jupyter(self):
        from jupyter_process import Jupyter
        if self.jupyter is None:
            folder = self.work / "jupyter"
            folder.mkdir()
            self.server = Jupyter(folder)
            self.jupyter = Client(env=self.server.env)
            self.server.start()
        context = self.jupyter.new("python")
        self.jupyter.run("1+1", "python", context)
        warm = median(lambda: self.jupyter.run("1+1", "python", context), max(5, self.options.runs // 5))
        self.jupyter.delete(context)
        return {"warm": warm, "fresh": first_result(self.jupyter, "1+1", "python", max(1, self.options.runs // 60))}

    def languages(self):
        """First results and the bare programs, in turns."""
        count = max(1, self.options.runs // 60)
        env = {**os.environ, "PATH": PLAIN_PATH, "GOTOOLCHAIN": "local", "GOFLAGS": ""}

        def bare(*argv, **options):
            return lambda: subprocess.run(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, **options)

        goes = shutil.which("go", path=PLAIN_PATH)
        out = {"bash": first_result(self.client, "echo 2", "bash", max(3, self.options.runs // 10)),
               "node": first_result(self.client, "1+1", "javascript", 5 * count), "node bare": median(bare("node", "-e", "0"), 5 * count),
               "java first": statistics.median(self.java_first() for _ in range(count)),
               "java": first_result(self.client, "1 + 1", "java", count), "java bare": median(bare("java", str(self.work / "Bare.java")), count)}
        if goes:
            context, numbers = self.client.new("go"), iter(range(time.monotonic_ns(), 1 << 63))
            go_run = bare("go", "run", "main.go", cwd=self.work / "go")

            def run():
                (self.work / "go" / "main.go").write_text(GO.format(next(numbers)))
                go_run()

            def cell():
                self.client.run(GO.format(next(numbers)), "go", context)

            cell()
            run()
            out |= {"go": median(cell, 3 * count), "go bare": median(run, 3 * count)}
            self.client.delete(context)
        return out

    def output(self):
        context = self.client.new("python")
        lines = 100_000
        took = timed(lambda: self.client.run(f"line = 'x' * 1023\nfor _ in range({lines}): print(line)", "python", context))
        self.client.delete(context)
        return {"rate": lines * 1024 / 1e3 / took}

    def memory(self):
        pids, contexts = [], []
        for _ in range(20):
            contexts.append(self.client.new("python"))
            text = self.client.run("import os\nos.getpid()", "python", contexts[-1])
            pids += [int(json.loads(line)["results"]["text"]) for line in text.split(b"\n\n") if b'"result"' in line]
        each = sum(map(proportional_size, pids)) / len(pids) / 1024
        for context in contexts:
            self.client.delete(context)
        return {"each": each, "file": (self.options.build / "bin" / "execd").stat().st_size / (1 << 20)}

    def create(self):
        """API create of a sandbox of image host to its first Python result, over HTTP."""
        from sandboxd_process import Sandboxd
        from server_process import Server
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.work))
        daemon = Sandboxd(directory=folder, settings={"daemon": {"log_level": "warn"}})
        server = Server(daemon)
        try:
            def whole():
                made = server.create()["id"]
                address = next(each["address"] for each in daemon.list() if each["id"] == made)
                client = Client(port=(address, 44772), headers=server.token(made))
                client.run("1+1", "python")
                client.close()

            whole()
            took = median(whole, max(3, self.options.runs // 15))
            server.remove_all()
            return {"create": took}
        finally:
            server.close()
            daemon.close()

    def close(self):
        self.client.close()
        if self.jupyter:
            self.jupyter.close()
            self.server.stop()


def measure(options, work):
    bench, foreign = Bench(options, work), []
    try:
        variants = {"python": bench.python, "jupyter": bench.beside_jupyter, "languages": bench.languages, "output": bench.output,
                    "memory": bench.memory, "create": bench.create}
        variants = {name: run for name, run in variants.items() if not options.only or name in options.only}
        out = report.rounds(options.rounds, variants, [os.getpid(), bench.client.execd.pid], foreign)
        return {**out, "others": statistics.median(foreign)}
    finally:
        bench.close()


def markdown(out, options):
    quiet = out["others"] <= report.Foreign.LIMIT
    rows = []

    def row(what, value, target, ok):
        rows.append([what, value, target, report.verdict(ok, quiet)])

    jupyter = out.get("jupyter", {})

    def beside(name):
        return f"; Jupyter: {jupyter[name]:,.1f} ms" if name in jupyter else ""

    if part := out.get("python"):
        row("Python `1+1`, warm context", f"{part['warm']:.2f} ms{beside('warm')}", "≤ 1.5 ms", part["warm"] <= 1.5)
        row("create of a context to its first result", f"{part['fresh']:.1f} ms{beside('fresh')}", "≤ 60 ms", part["fresh"] <= 60)
        row("the same, forked from the prepared process", f"{part['forked']:.1f} ms", "≤ 15 ms", part["forked"] <= 15)
    if part := out.get("languages"):
        row("Bash, create to first result", f"{part['bash']:.1f} ms", "≤ 5 ms", part["bash"] <= 5)
        for name, what, limit in (("node", "Node, beside `node -e 0`", 1.4),
                                  ("java first", "Java, the first context, beside a bare JShell program", 1.5),
                                  ("java", "Java, later contexts, beside a bare JShell program", 1.5), ("go", "a Go cell, beside `go run`", 1.3)):
            if name in part:
                bare = part[f"{name.removesuffix(' first')} bare"]
                row(what, f"{part[name]:,.0f} ms, {part[name] / bare:.2f}x of {bare:,.0f}", f"≤ {limit}x", part[name] <= limit * bare)
    if part := out.get("output"):
        row("100 MB printed in lines of 1 KiB", f"{part['rate']:,.0f} MB/s", "≥ 150 MB/s", part["rate"] >= 150)
    if part := out.get("memory"):
        row("20 Python contexts, each", f"{part['each']:.1f} MiB", "≤ 12 MiB", part["each"] <= 12)
        row("execd's file", f"{part['file']:.2f} MiB", "< 4.5 MiB", part["file"] < 4.5)
    if part := out.get("create"):
        row("API create of a sandbox to the first Python result", f"{part['create']:.1f} ms", "≤ 40 ms", part["create"] <= 40)
    return (report.table(["what", "measured", "target", ""], rows) +
            f"\n\nFrom the request to the end of the stream; medians of {options.rounds} rounds; others took {out['others']:.0%} of the "
            "machine. Jupyter is `jupyter-server` with `ipykernel`, driven through execd by the same client.")


def arguments(parser):
    parser.add_argument("--runs", type=int, default=300, help="of the warm cell; others are repeated less often")


def prepare():
    subprocess.run([harness.ROOT / "scripts" / "python-env", "tests/support/jupyter-requirements.txt", harness.ROOT / "build" / "jupyter"],
                   check=True)


if __name__ == "__main__":
    harness.main(harness.Part("code", "Code interpreter", __doc__, measure, markdown, rounds=3, arguments=arguments, prepare=prepare,
                              only=("python", "jupyter", "languages", "output", "memory", "create"), tools=("node", "java")))
