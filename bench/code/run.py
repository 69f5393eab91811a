"""Code contexts of a bare execd: time from the request to the end of the stream, output rate, memory per context.

    bench/code/run.py [--build build/release] [--rounds 300]

Prints one line per measurement. The client is this program (http.client over one connection), so the numbers hold its
own time too.
"""

import argparse
import http.client
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Execd:
    def __init__(self, binary):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(64)
            port = listener.getsockname()[1]
            environment = {**os.environ, "PATH": "/usr/local/bin:/usr/bin:/bin"}  # not the shims of version managers
            self.process = subprocess.Popen([binary, f"--listen-fd={listener.fileno()}"], env=environment,
                                            pass_fds=[listener.fileno()], stdout=subprocess.DEVNULL)
        self.http = http.client.HTTPConnection("127.0.0.1", port)

    def call(self, method, path, body=None):
        self.http.request(method, path, json.dumps(body) if body is not None else None)
        answer = self.http.getresponse()
        return answer, answer.read()

    def run(self, code, language, context=None):
        answer, body = self.call("POST", "/code", {"code": code, "context": {"id": context, "language": language}})
        if answer.status != 200 or b'"error"' in body:
            sys.exit(f"{language}: {body[:500]!r}")
        return body

    def new(self, language):
        answer, body = self.call("POST", "/code/context", {"language": language})
        if answer.status != 200:
            sys.exit(f"{language}: {body[:500]!r}")
        return json.loads(body)["id"]

    def delete(self, context):
        self.call("DELETE", f"/code/contexts/{context}")


def timed(function):
    begun = time.perf_counter()
    function()
    return (time.perf_counter() - begun) * 1000


def report(name, samples):
    samples.sort()
    print(f"{name}: p50 {statistics.median(samples):.2f} ms, p99 {samples[int(len(samples) * 0.99) - 1]:.2f} ms, "
          f"min {samples[0]:.2f} ms, {len(samples)} rounds", flush=True)


def proportional_size(pid):
    """KiB, pages that processes share counted once among them."""
    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--rounds", type=int, default=300)
    arguments = parser.parse_args()
    execd = Execd(arguments.build / "bin/execd")
    try:
        cells = {"python": "1+1", "bash": "echo 2", "javascript": "1+1"}
        for language, code in cells.items():
            context = execd.new(language)
            execd.run(code, language, context)
            report(f"{language}, warm run", [timed(lambda: execd.run(code, language, context))
                                             for _ in range(arguments.rounds)])
            execd.delete(context)

            def first():
                made = execd.new(language)
                execd.run(code, language, made)
                contexts.append(made)

            contexts = []
            report(f"{language}, create to first result", [timed(first) for _ in range(max(5, arguments.rounds // 15))])
            for made in contexts:
                execd.delete(made)
        context = execd.new("python")
        size = 100_000
        took = timed(lambda: execd.run(f"line = 'x' * 1023\nfor _ in range({size}): print(line)", "python", context))
        print(f"python, {size * 1024 / 1e6:.0f} MB printed in lines of 1 KiB: {size * 1024 / 1e3 / took:.0f} MB/s", flush=True)
        pids = [int(json.loads(line)["results"]["text"]) for _ in range(20)
                for line in execd.run("import os\nos.getpid()", "python", execd.new("python")).split(b"\n\n")
                if b'"result"' in line]
        print(f"python, 20 contexts: {sum(map(proportional_size, pids)) / len(pids) / 1024:.1f} MiB each (Pss)")
        print(f"execd: {(arguments.build / 'bin/execd').stat().st_size / 1024 / 1024:.2f} MiB file")
    finally:
        execd.process.terminate()
        execd.process.wait()


if __name__ == "__main__":
    main()
