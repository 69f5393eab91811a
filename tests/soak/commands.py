#!/usr/bin/env python3
"""Many commands of all kinds against one execd: its memory, descriptors, threads, children and temporary files must be
at the end what they were after a warm-up.

    EXECD_BINARY=build/release/bin/execd build/venv/bin/python tests/soak/commands.py [--commands 100000]
        [--minutes 60]

Ends with the last command, or when the time is up. Samples are taken at rest: every command of the mix has ended, and enough plain ones have followed to push the last
remembered output out. A tenth of the commands is warm-up. Exit status 1 means growth or a wrong answer.
"""

import argparse
import itertools
import json
import os
import pathlib
import socket
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from execd_process import Execd  # noqa: E402

REMEMBERED = 100  # finished commands that execd keeps
MAX_THREADS = 16  # a pool that grows on demand, up to its limit
MIN_WARM_UP = 1500


class Wrong(Exception):
    """An answer that is not the expected one."""


class Connection:
    """One keep-alive HTTP connection: a few lines of our own, because the usual clients cost more than the server."""

    def __init__(self, port):
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = self._socket.makefile("rb")

    def send(self, method, path, body=None):
        data = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: soak\r\nContent-Length: {len(data)}\r\n\r\n"
        self._socket.sendall(head.encode() + data)

    def head(self):
        """Status and headers (lower-case names)."""
        status = int(self._reader.readline().split()[1])
        headers = {}
        while (line := self._reader.readline().strip()):
            name, _, value = line.partition(b":")
            headers[name.strip().lower()] = value.strip()
        return status, headers

    def chunk(self):
        """The next piece of a chunked body; empty at the end."""
        size = int(self._reader.readline(), 16)
        return self._reader.read(size + 2)[:-2]

    def request(self, method, path, body=None, accept=(200,)):
        self.send(method, path, body)
        status, headers = self.head()
        self.status = status
        if headers.get(b"transfer-encoding") == b"chunked":
            content = b"".join(iter(self.chunk, b""))
        else:
            content = self._reader.read(int(headers.get(b"content-length", 0)))
        if status not in accept:
            raise Wrong(f"{method} {path}: {status} {content[:300]!r}")
        return content

    def close(self):
        self._reader.close()
        self._socket.close()


def first_event(chunk):
    return json.loads(chunk.split(b"\n\n", 1)[0])


def expect(content, *parts):
    for part in parts:
        if part not in content:
            raise Wrong(f"{part!r} is not in {content[:500]!r}")


class Worker:
    def __init__(self, execd, ended):
        self._ended = ended  # tells how many commands of all workers have ended
        self._port = execd.port
        self._connection = Connection(execd.port)
        self._unfinished = []  # commands whose end was not seen yet
        self._session = None
        self._session_runs = 0
        self._mix = [self.foreground] * 9 + [
            self.failing, self.both_streams, self.big_output, self.background, self.background_with_logs,
            self.vanishing_client, self.in_session, self.in_session, self.timed_out, self.interrupted, self.orphans]

    def run(self, number):
        self._mix[number % len(self._mix)](number)

    def _command(self, command, **options):
        return self._connection.request("POST", "/command", {"command": command, **options})

    def foreground(self, number):
        expect(self._command(f"echo number {number}"), b'"text":"number %d"' % number, b'"execution_complete"')

    def failing(self, number):
        expect(self._command("exit 7"), b'"evalue":"7"')

    def both_streams(self, number):
        expect(self._command(f"for i in 1 2 3; do echo out $i; echo {number} >&2; done"),
               b'"text":"out 3"', b'"text":"%d"' % number)

    def big_output(self, number):
        content = self._command("printf '%0100000d\\n' 1 2 3 4 5 6 7 8")
        if len(content) < 800_000:
            raise Wrong(f"{len(content)} bytes of a big output")

    def _start(self, command):
        content = self._command(command, background=True)
        expect(content, b'"execution_complete"')
        return first_event(content)["text"]

    def _expect_finished(self, path, ended, *parts):
        """The answer of execd about a command that ended when there were `ended`, unless so many followed that execd
        may have forgotten it: on a busy machine a worker waits that long."""
        content = self._connection.request("GET", path, accept=(200, 404))
        if self._connection.status == 200:
            expect(content, *parts)
        elif self._ended() - ended < REMEMBERED // 2:
            raise Wrong(f"GET {path}: forgotten after {self._ended() - ended} others")

    def background(self, number):
        self._unfinished.append(self._start(f"echo in the background {number}"))

    def background_with_logs(self, number):
        ended = self._ended()
        command_id = self._start(f"echo logged {number}; echo error >&2; exit 3")
        self._expect_finished(f"/command/{command_id}/events", ended, b'"evalue":"3"')
        self._expect_finished(f"/command/status/{command_id}", ended, b'"exit_code":3')
        self._expect_finished(f"/command/{command_id}/logs?cursor=0", ended, b"logged %d\n" % number, b"error\n")

    def vanishing_client(self, number):
        connection = Connection(self._port)
        connection.send("POST", "/command", {"command": f"echo to nobody {number}; seq 200; read -t 0.01 < <(:)"})
        connection.head()
        self._unfinished.append(first_event(connection.chunk())["text"])
        connection.close()

    def in_session(self, number):
        if self._session is None:
            self._session = json.loads(self._connection.request("POST", "/session", {}))["session_id"]
            self._session_runs = 0
        path = f"/session/{self._session}/run"
        expect(self._connection.request("POST", path, {"command": f"export N={number}; echo session $N"}),
               b'"text":"session %d"' % number, b'"execution_complete"')
        self._session_runs += 1
        if self._session_runs == 20:
            self._drop_session()

    def _drop_session(self):
        if self._session is not None:
            self._connection.request("DELETE", f"/session/{self._session}")
            self._session = None

    def timed_out(self, number):
        expect(self._command("sleep 600", timeout=20), b'"evalue":"-1"')

    def interrupted(self, number):
        ended = self._ended()
        command_id = self._start("exec sleep 600")
        self._connection.request("DELETE", f"/command?id={command_id}")
        self._expect_finished(f"/command/status/{command_id}", ended, b'"running":false')

    def orphans(self, number):
        # A child that keeps its output open beyond the shell's end, and one that loses its parent.
        expect(self._command("read -t 0.02 < <(sleep 0.1) & (sleep 0.05 &); echo left"), b'"text":"left"')

    def settle(self):
        """Sees the end of what it left behind, and lets nothing of it be remembered."""
        for command_id in self._unfinished:
            # 404: it has ended so long ago that it is forgotten.
            self._connection.request("GET", f"/command/{command_id}/events", accept=(200, 404))
        self._unfinished.clear()
        self._drop_session()

    def flush(self):
        for _ in range(3 * REMEMBERED):
            self._command("true")

    def close(self):
        self._connection.close()


class Sample:
    def __init__(self, pid, directory):
        with open(f"/proc/{pid}/status") as file:
            status = dict(line.split(":", 1) for line in file)
        self.rss_kib = int(status["VmRSS"].split()[0])
        self.threads = int(status["Threads"])
        self.descriptors = len(os.listdir(f"/proc/{pid}/fd"))
        self.files = len(os.listdir(directory))
        self.children = self.zombies = 0
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                with open(f"/proc/{entry}/stat") as file:
                    state, parent = file.read().rpartition(")")[2].split()[:2]
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(parent) == pid:
                self.children += 1
                self.zombies += state == "Z"

    def __str__(self):
        return (f"rss {self.rss_kib} KiB, {self.descriptors} descriptors, {self.threads} threads, "
                f"{self.children} children, {self.zombies} zombies, {self.files} temporary files")


class Soak:
    def __init__(self, execd, parallel, progress):
        self._execd = execd
        self._done = itertools.count(1)  # safe to share between threads
        self._last_done = 0
        self._workers = [Worker(execd, lambda: self._last_done) for _ in range(parallel)]
        self._progress = progress
        self._started = time.monotonic()

    def run(self, first, last, until):
        """Commands first..last-1, shared by the workers; fewer when the time is up. How many there were in all."""
        numbers = iter(range(first, last))
        lock = threading.Lock()
        failures = []

        def work(worker):
            try:
                while not failures and time.monotonic() < until:
                    with lock:
                        number = next(numbers, None)
                    if number is None:
                        return
                    worker.run(number)
                    self._count()
            except Exception as error:  # noqa: BLE001: any error ends the soak and is reported
                failures.append(error)

        threads = [threading.Thread(target=work, args=(worker,)) for worker in self._workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        return self._last_done

    def _count(self):
        self._last_done = done = next(self._done)
        if done % self._progress == 0:
            rate = done / (time.monotonic() - self._started)
            with open(f"/proc/{self._execd.pid}/statm") as file:
                rss = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024
            print(f"{done:>8} commands, {rate:.0f}/s, rss {rss} KiB", flush=True)

    def rest(self, directory):
        for worker in self._workers:
            worker.settle()
        self._workers[0].flush()
        return Sample(self._execd.pid, directory)

    def close(self):
        for worker in self._workers:
            worker.close()


def compare(warm, end, idle_children, max_growth_kib):
    """The values that have grown, as sentences."""
    problems = []
    if end.rss_kib - warm.rss_kib >= max_growth_kib:
        problems.append(f"resident memory grew by {end.rss_kib - warm.rss_kib} KiB")
    if end.descriptors != warm.descriptors:
        problems.append(f"descriptors went from {warm.descriptors} to {end.descriptors}")
    if end.threads > MAX_THREADS:
        problems.append(f"{end.threads} threads")
    if end.files > warm.files:
        problems.append(f"temporary files went from {warm.files} to {end.files}")
    if end.zombies:
        problems.append(f"{end.zombies} zombies")
    if end.children != idle_children:
        problems.append(f"{end.children} children at rest")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--commands", type=int, default=100_000)
    parser.add_argument("--minutes", type=float, default=60, help="at most (60)")
    parser.add_argument("--parallel", type=int, default=16)
    parser.add_argument("--max-growth", type=int, default=2048, metavar="KIB", help="of resident memory (2048)")
    options = parser.parse_args()
    warm_up = max(options.commands // 10, MIN_WARM_UP)
    if options.commands < 2 * warm_up:
        parser.error(f"--commands must be at least {2 * MIN_WARM_UP}")

    with tempfile.TemporaryDirectory(prefix="execd-soak-") as directory:
        execd = Execd(cwd=directory, env={"TMPDIR": directory, "EXECD_COMMAND_FINISHED": str(REMEMBERED),
                                          "EXECD_COMMAND_RETENTION": "10m", "EXECD_ENVS": None})
        try:
            start = Sample(execd.pid, directory)
            print(f"at start: {start}", flush=True)
            soak = Soak(execd, options.parallel, max(options.commands // 20, 1))
            started = time.monotonic()
            until = started + options.minutes * 60
            soak.run(0, warm_up, until)
            warm = soak.rest(directory)
            print(f"after {warm_up}: {warm}", flush=True)
            done = soak.run(warm_up, options.commands, until)
            end = soak.rest(directory)
            print(f"after {done}: {end}", flush=True)
            problems = compare(warm, end, start.children, options.max_growth)
            soak.close()
            print(f"{done} commands in {time.monotonic() - started:.0f} s: "
                  f"{'; '.join(problems) or 'no growth'}")
        except (Wrong, OSError) as error:
            print(f"soak failed: {error}\n{execd.log()[-4000:]}")
            problems = [str(error)]
        finally:
            execd.stop()
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
