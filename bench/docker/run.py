#!/usr/bin/env python3
"""The lifecycle server on Docker beside Docker itself: the same engine, image and command, in one run.

Needs root. Starts a dockerd, a registry and a server of its own, in a network namespace of their own.
"""

import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness  # noqa: E402
import report  # noqa: E402

COMMAND = ["tail", "-f", "/dev/null"]  # what bench_server_load starts, from the image "host"
BURST = 50
# What a sandbox gets besides: a network without traffic between containers (a network of one's own has the engine's
# resolver, whose rules cost two thirds of the difference), and two published ports.
NETWORK = "bench"
SAME = ["--network", NETWORK, "--publish", "127.0.0.1::44772", "--publish", "127.0.0.1::8080"]


class Bench:
    def __init__(self, options, work):
        from docker_engine import Engine
        from registry import Registry, busybox_layer, hard_link, tar
        from server_process import Server
        self.programs = options.build / "bin"
        self.open = contextlib.ExitStack()
        data = work / "data"
        data.mkdir()
        # On disk, as everywhere else: memory would flatter all sides.
        self.engine = self.open.enter_context(contextlib.closing(Engine(data=data, host_image=False)))
        root = busybox_layer(bin__tail=hard_link("bin/busybox"))
        self.engine.load("host:latest", [root])
        (work / "registry").mkdir()
        self.registry = self.open.enter_context(contextlib.closing(Registry(work / "registry")))
        noise = tar({"noise": os.urandom(64 << 20)})
        self.pulled = self.registry.push("bench/large:1", [root, noise])
        self.server = self.open.enter_context(contextlib.closing(Server(self.engine)))
        self.docker = ["docker", "-H", self.engine.url]
        self.engine.ask("POST", "/networks/create", json={
            "Name": NETWORK, "Driver": "bridge", "Options": {"com.docker.network.bridge.enable_icc": "false"}})
        # Both sides create once before the measurement, so that one-time work is not part of it.
        self.load("create", 1, 0)
        self.docker_run()
        self.remove_runs()

    def load(self, *arguments, port=None):
        out = subprocess.run([self.programs / "bench_server_load", str(port or self.server.port), self.server.key,
                              *map(str, arguments)], capture_output=True, text=True)
        if out.returncode != 0:
            raise RuntimeError(out.stderr + self.server.log()[-3000:])
        return json.loads(out.stdout)

    def docker_run(self, *words):
        """Milliseconds until `docker run -d` is back; execd is not part of it."""
        begin = time.monotonic()
        out = subprocess.run([*self.docker, "run", "-d", "--label", "bench=1", *words, "host", *COMMAND],
                             capture_output=True, text=True)
        if out.returncode != 0:
            raise RuntimeError(out.stderr)
        return (time.monotonic() - begin) * 1000

    def docker_burst(self, *words):
        """The same by a shell that starts them all and waits."""
        line = " ".join([*self.docker, "run", "-d", "--label", "bench=1", *words, "host", *COMMAND])
        script = f'for i in $(seq {BURST}); do {line} >/dev/null || echo failed & done; wait'
        begin = time.monotonic()
        out = subprocess.run(["sh", "-c", script], capture_output=True, text=True)
        if "failed" in out.stdout:
            raise RuntimeError(out.stderr)
        return (time.monotonic() - begin) * 1000

    def remove_runs(self):
        for each in self.engine.containers(bench="1"):
            self.engine.ask("DELETE", f"/containers/{each['Id']}", params={"force": "1"})

    def close(self):
        self.open.close()


def singles(options, bench):
    ours, plain, same = [], [], []
    for number in range(options.rounds):
        ours.append(bench.load("create", 8, 50)["p50"])
        for found, words in ((plain, []), (same, SAME)):
            times = []
            for _ in range(8):
                times.append(bench.docker_run(*words))
                bench.remove_runs()
            found.append(statistics.median(times))
        print(f"  round {number + 1}: create {ours[-1]:.0f} ms, docker run {plain[-1]:.0f} ms, with network and ports "
              f"{same[-1]:.0f} ms", flush=True)
    return {"ours": statistics.median(ours), "docker": statistics.median(plain), "same": statistics.median(same)}


def bursts(options, bench):
    ours, plain, same = [], [], []
    for number in range(min(3, options.rounds)):
        ours.append(bench.load("burst", BURST)["all_ms"])
        for found, words in ((plain, []), (same, SAME)):
            found.append(bench.docker_burst(*words))
            bench.remove_runs()
        print(f"  round {number + 1}: {BURST} at once {ours[-1]:.0f} ms, docker run {plain[-1]:.0f} ms, with network and "
              f"ports {same[-1]:.0f} ms", flush=True)
    return {"ours": statistics.median(ours), "docker": statistics.median(plain), "same": statistics.median(same)}


@contextlib.contextmanager
def busy(bench):
    """Creates fifty at a time and pulls an image, over and over, until the body is done. Failures come out of it."""
    from registry import PASSWORD, USER
    done, failures = threading.Event(), []

    def again(work):
        try:
            while not done.is_set():
                work()
        except Exception as error:  # noqa: BLE001: told by the thread that waits
            failures.append(error)

    def pull():
        made = bench.server.create(image={"uri": bench.pulled, "auth": {"username": USER, "password": PASSWORD}},
                                   wait=60)
        bench.server.delete(made["id"])
        bench.engine.ask("DELETE", f"/images/{bench.pulled}", params={"force": "1"})

    threads = [threading.Thread(target=again, args=[work]) for work in (lambda: bench.load("burst", BURST), pull)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]


def reads(options, bench):
    """One GET every two milliseconds, at the server and at a program that only answers, under the same load."""
    id = bench.server.create(entrypoint=COMMAND)["id"]
    port = report.free_port()
    raw = subprocess.Popen([bench.programs / "bench_raw_epoll", str(port)], stdout=subprocess.PIPE, text=True)
    assert "listening" in raw.stdout.readline()
    ours, plain = [], []
    try:
        for number in range(min(3, options.rounds)):
            with busy(bench):
                for seen, where in ((ours, None), (plain, port), (plain, port), (ours, None)):
                    seen.append(bench.load("get", 1500, 2, f"/v1/sandboxes/{id}", port=where))
            print(f"  round {number + 1}: GET {ours[-1]['p99']:.2f} ms p99, raw epoll {plain[-1]['p99']:.2f} ms",
                  flush=True)
    finally:
        raw.terminate()
        raw.wait()
        raw.stdout.close()
    bench.server.delete(id)
    return {"ours": statistics.median(each["p99"] for each in ours),
            "raw": statistics.median(each["p99"] for each in plain)}


def measure(options, work):
    others = others_before()
    bench = Bench(options, work)
    try:
        out = {part.__name__: part(options, bench) for part in (singles, bursts, reads)
               if not options.only or part.__name__ in options.only}
    finally:
        bench.close()
    return {**out, "others": others}


def others_before():
    """The share of the machine that others take. The engine's own processes cannot be told from theirs by their parents,
    so it is measured before there are any."""
    others = report.Foreign([])
    time.sleep(2)
    return others.share()


def markdown(out, options):
    quiet = out["others"] <= report.Foreign.LIMIT
    rows = []

    def row(what, ours, other, unit, limit):
        rows.append([what, f"{ours:.{unit}f} against {other:.{unit}f} ms, {ours / other:.2f}×", f"≤ {limit}×",
                     report.verdict(ours <= limit * other, quiet)])

    if part := out.get("singles"):
        row("create → execd answered, against `docker run -d`, p50", part["ours"], part["docker"], 0, 1.15)
        row("the same with the sandbox's network and ports, p50", part["ours"], part["same"], 0, 1.15)
    if part := out.get("bursts"):
        row(f"{BURST} creates at once, against {BURST} `docker run -d` of a shell", part["ours"], part["docker"], 0,
            1.1)
        row("the same with the sandboxes' network and ports", part["ours"], part["same"], 0, 1.1)
    if part := out.get("reads"):
        row("`GET /sandboxes/{id}` during creates and a pull, p99, against raw epoll", part["ours"], part["raw"], 2,
            3)
    return (report.table(["what", "measured", "target", ""], rows) +
            f"\n\nOne dockerd with overlay2, busybox, `{' '.join(COMMAND)}`. `docker run` starts no execd, and "
            f"publishes ports and has a network without traffic between containers only where the row says so. Before it began others took {out['others']:.0%} of the machine.")


if __name__ == "__main__":
    harness.main(harness.Part("docker", "Docker backend", __doc__, measure, markdown,
                              only=("singles", "bursts", "reads"),
                              tools=("dockerd", "docker", "docker-registry", "busybox")))
