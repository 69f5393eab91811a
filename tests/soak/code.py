#!/usr/bin/env python3
"""Interrupts at random moments: code of several languages is run and interrupted again and again. Every run has to end
once, with every event in its place, and the context has to keep its state and take the next run.

    EXECD_BINARY=build/release/bin/execd build/venv/bin/python tests/soak/code.py [--rounds 1000] [--language python] [--minutes 20] [--seed N]

Exit status 1 means a lost or doubled event, a lost state or a context that is stuck.
"""

import argparse
import http.client
import json
import pathlib
import random
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from execd_process import Execd  # noqa: E402

TIME = 120  # seconds for any answer; a context that needs longer is stuck

# A start, code that takes about {n} steps and prints on the way, how the state is shown, and when an interrupt comes at the
# latest (seconds).
LANGUAGES = {
    "python": ("kept = 'state'", "for i in range({n} * 300):\n  if i % 5000 == 0: print(i)\n{n}", "print(kept)", 0.05),
    "bash": ("kept=state", "for ((i = 0; i < {n} * 10; i++)); do ((i % 500)) || echo $i; done; sleep 0.00{n}", "echo $kept", 0.05),
    "javascript": ("const kept = 'state'",
                   # An interrupt in the middle of setTimeout may leave timers of that length that never fire.
                   "for (let i = 0; i < {n} * 1e6; i++) if (i % 1e6 == 0) console.log(i);\nawait null;\n"
                   "for (let i = 0; i < {n} % 20; i++) {{ console.log(i); await new Promise((r) => setTimeout(r, 1)); }}",
                   "console.log(kept)", 0.1),
    "java": ('String kept = "state";', "for (int i = 0; i < {n} * 100000; i++) if (i % 100000 == 0) System.out.println(i);",
             "System.out.println(kept);", 0.1),
    "csharp": ('string kept = "state";', "for (int i = 0; i < {n} * 100000; i++) if (i % 100000 == 0) Console.WriteLine(i);",
               "Console.WriteLine(kept);", 0.1),
    "go": ('import ("fmt"; "time")\nfunc kept() string { return "state" }',
           "for i := 0; i < {n}; i++ {{ fmt.Println(i); time.Sleep(time.Millisecond) }}", "fmt.Println(kept())", 0.4),
}


class Wrong(Exception):
    pass


def call(port, method, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIME)
    try:
        connection.request(method, path, json.dumps(body) if body is not None else None)
        answer = connection.getresponse()
        text = answer.read()
    except TimeoutError as error:
        raise Wrong(f"{method} {path}: no answer in {TIME} s") from error
    finally:
        connection.close()
    if answer.status != 200:
        raise Wrong(f"{method} {path}: {answer.status} {text[:300]!r}")
    return text


def events_of(port, context, code):
    text = call(port, "POST", "/code", {"code": code, "context": context})
    return [event for event in map(json.loads, filter(None, text.split(b"\n\n"))) if event["type"] != "ping"]


def run(port, context, language, code):
    """The events of a run, checked for what every run promises."""
    events = events_of(port, {"id": context, "language": language}, code)
    types = [event["type"] for event in events]
    numbers = [event["seq"] for event in events]
    if numbers != list(range(1, len(events) + 1)):
        raise Wrong(f"numbers of events: {numbers[:50]}")
    if types[0] != "init" or types.count("init") != 1 or types.count("execution_complete") != 1 or types[-1] != "execution_complete":
        raise Wrong(f"events: {types[:50]} {events[-2:]}")
    if types.count("error") > 1:
        raise Wrong(f"errors: {[event for event in events if event['type'] == 'error']}")
    error = next((event["error"]["ename"] for event in events if event["type"] == "error"), None)
    return error, "".join(event.get("text", "") for event in events if event["type"] == "stdout")


class Worker(threading.Thread):
    def __init__(self, port, language, rounds, end, seed):
        super().__init__()
        self.port, self.language, self.rounds, self.end = port, language, rounds, end
        self.random = random.Random(f"{seed}-{language}")
        self.done = self.interrupted = 0
        self.failed = None

    def run(self):
        try:
            first, code, show, latest = LANGUAGES[self.language]
            # A run waits as long as the start of its process takes, a request for a context 25 s.
            context = next(event["text"] for event in events_of(self.port, {"language": self.language}, first))
            begun = run(self.port, context, self.language, first)
            if begun[0] is not None:
                raise Wrong(f"the first run is {begun}")
            while self.done < self.rounds and time.monotonic() < self.end:
                self.round(context, code, show, latest)
                self.done += 1
        except Exception as error:  # noqa: BLE001: told by the main thread
            self.failed = error

    def round(self, context, code, show, latest):
        outcome = []

        def go():
            try:
                outcome.append(run(self.port, context, self.language, code.format(n=self.random.randrange(1, 100))))
            except Exception as error:  # noqa: BLE001
                outcome.append(error)

        running = threading.Thread(target=go)
        running.start()
        time.sleep(self.random.random() ** 3 * latest)  # the random moment; nothing is expected of it
        for _ in range(self.random.choice((1, 1, 1, 2))):
            call(self.port, "DELETE", f"/code?id={context}")
        running.join(TIME)
        if not outcome:
            raise Wrong("a run does not end")
        if isinstance(outcome[0], Exception):
            raise outcome[0]
        error = outcome[0][0]
        if error not in (None, "KeyboardInterrupt"):
            raise Wrong(f"error {error}")
        self.interrupted += error is not None
        state = run(self.port, context, self.language, show)
        # Timers and promises of interrupted JavaScript go on, and may print.
        if state[0] is not None or "state" not in state[1].split("\n" if self.language == "javascript" else None):
            raise Wrong(f"the state after an interrupt is {state}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1000, help="of each language; default %(default)s")
    parser.add_argument("--language", action="append", choices=list(LANGUAGES), help="only this one; repeatable")
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    execd = Execd(env={"EXECD_CODE_INTERRUPT_GRACE": f"{TIME}s"})
    try:
        end = time.monotonic() + options.minutes * 60
        workers = [Worker(execd.port, language, options.rounds, end, options.seed) for language in options.language or LANGUAGES]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        for worker in workers:
            print(f"{worker.language}: {worker.done} runs, {worker.interrupted} of them interrupted: {worker.failed or 'all in order'}")
        return 1 if any(worker.failed for worker in workers) else 0
    finally:
        execd.stop()


if __name__ == "__main__":
    sys.exit(main())
