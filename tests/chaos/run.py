#!/usr/bin/env python3
"""Many clients, random faults, and what holds afterwards. docs/chaos.md tells what, and how to read the summary.

    SERVER_BINARY=.. SANDBOXD_BINARY=.. EXECD_BINARY=.. build/venv/bin/python tests/chaos/run.py
        [--minutes 10] [--clients 50] [--seed N] [--out build/chaos]

Needs root. The faults and what each client does come from the seed. Exit status 1: a promise was broken.
"""

import argparse
import json
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

from known import load
from report import Tally, summary
from sleepers import Sleepers
from world import World, enter_namespaces

HERE = pathlib.Path(__file__).resolve().parent


class Clients:
    """The client processes. A killed one is replaced by a new one with the same journal."""

    def __init__(self, world, directory, count, seed):
        self._world, self._directory, self._seed = world, directory, seed
        self._generation = [0] * count
        self._processes = [None] * count
        self._errors = open(directory / "errors", "ab")
        for number in range(count):
            self._start(number)

    @property
    def journals(self):
        return [self._directory / f"{number}.journal" for number in range(len(self._processes))]

    def _start(self, number):
        seed = f"{self._seed}/{number}/{self._generation[number]}"
        self._generation[number] += 1
        self._processes[number] = subprocess.Popen(
            [sys.executable, "-B", str(HERE / "client.py"), str(self._world.server.port), self._world.server.key,
             str(self.journals[number]), seed], stdin=subprocess.DEVNULL, stdout=self._errors, stderr=self._errors)

    def kill_one(self, rng):
        number = rng.randrange(len(self._processes))
        self._processes[number].kill()
        self._processes[number].wait()
        self._start(number)

    def stop(self, limit):
        """Each finishes its current step. Returns the clients that cannot."""
        for process in self._processes:
            process.send_signal(signal.SIGTERM)
        until = time.monotonic() + limit
        stuck = []
        for number, process in enumerate(self._processes):
            try:
                process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                stuck.append(number)
        self._errors.close()
        return stuck

    def kill(self):
        for process in self._processes:
            process.kill()
            process.wait()

    def failures(self):
        """The output of clients that crashed: bugs of this suite."""
        return (self._directory / "errors").read_text(errors="replace").strip()


def chaos(world, options, directory):
    from faults import Faults
    from oracle import Leaks, Oracle, broken_by_all

    begin = time.monotonic()
    clients = Clients(world, directory, options.clients, options.seed)
    sleepers = Sleepers(world, max(2, options.clients // 10), options.seed)
    faults = Faults(world, clients, options.seed, begin)
    tally = Tally(clients.journals)
    faults.start()
    try:
        while (passed := time.monotonic() - begin) < options.minutes * 60:
            tally.read()
            print(f"\r{passed:5.0f} s  {tally.line()}  {len(faults.done)} faults, {world.disk.free() >> 20} MiB free ",
                  end="", flush=True)
            time.sleep(min(2, max(0.05, options.minutes * 60 - passed)))
    except BaseException:  # Ctrl-C, mostly: nothing may be left behind
        faults.stop()
        clients.kill()
        sleepers.stop()
        raise
    print("\nthe faults end, the clients finish ..", flush=True)
    faults.stop()
    broken = [("recovery", text) for text in faults.broken]
    try:
        world.wait_ready(90)
    except AssertionError as failure:
        broken.append(("recovery", str(failure)))
    broken += [("answers", f"client {number} did not come to its end") for number in clients.stop(180)]
    sleepers.stop()
    if text := clients.failures():
        broken.append(("answers", f"clients failed: {text[-2000:]}"))
    tally.read()
    broken += broken_by_all(tally, faults.done, begin, options.minutes)
    broken_by_sleepers, figures = sleepers.judge()
    broken += broken_by_sleepers
    print("what was promised is compared with what is there ..", flush=True)
    sandboxes, snapshots = [], []
    for journal in clients.journals:
        known, made = load(journal)
        sandboxes += known.values()
        snapshots += made.values()
    oracle = Oracle(world, sandboxes, snapshots)
    try:
        oracle.run()
        world.server.stop()
        world.daemon.stop()
        Leaks(world, oracle.broken).after_the_end()
    except Exception as failure:  # the verdict has to come in any case
        oracle.broken.append(("answers", f"the oracle did not come to its end: {failure!r}"))
    return {"seed": options.seed, "minutes": options.minutes, "clients": options.clients,
            "seconds": round(time.monotonic() - begin), "operations": tally.operations(), "faults": faults.done,
            "figures": oracle.figures | figures, "ended": oracle.ended,
            "broken": [{"promise": p, "text": t} for p, t in [*tally.broken, *broken, *oracle.broken]]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--out", type=pathlib.Path, default=HERE.parents[1] / "build" / "chaos")
    options = parser.parse_args()
    if options.seed is None:
        options.seed = random.SystemRandom().getrandbits(32)
    print(f"chaos: seed {options.seed}, {options.clients} clients, {options.minutes:g} minutes", flush=True)
    directory = options.out / f"seed-{options.seed}"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    enter_namespaces()
    world = World()
    try:
        result = chaos(world, options, directory)
    finally:
        for name, log in (("server.log", world.server.log()), ("sandboxd.log", world.daemon.log())):
            (directory / name).write_text(log)
        world.close()
    (options.out / f"seed-{options.seed}.json").write_text(json.dumps(result, indent=1))
    print(summary(result))
    if not result["broken"]:
        shutil.rmtree(directory)
        return 0
    print(f"journals and logs: {directory}\n"
          f"again: make chaos CHAOS_SEED={options.seed} CHAOS_MINUTES={options.minutes:g}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
