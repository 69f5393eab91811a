#!/usr/bin/env python3
"""Many sandboxes made and removed by one sandboxd, a few at a time: the host and the daemon must be at the end what they
were after a warm-up: files, cgroups, processes, interfaces, network namespaces, firewall, mounts, descriptors, memory.

    SANDBOXD_BINARY=.. EXECD_BINARY=.. tests/privileged/in_namespace build/venv/bin/python tests/soak/sandboxes.py
        [--sandboxes 10000] [--minutes 60] [--at-once 4] [--max-growth KIB]

Needs root. Every sandbox runs a command before it goes. A tenth is warm-up; after it the time may end it early. Exit status 1 means that something was left
or grew.
"""

import argparse
import collections
import itertools
import json
import math
import pathlib
import socket
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import host_state  # noqa: E402
from sandboxd_process import TOKEN_HEADER, Sandboxd  # noqa: E402

READY_SLOTS = 8
MOST_READY = 4 * READY_SLOTS  # recycled ones that the pool keeps


class Wrong(Exception):
    """An answer that is not the expected one."""


class Connection:
    """One keep-alive HTTP connection over a Unix socket."""

    def __init__(self, path):
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(120)
        self._socket.connect(str(path))
        self._reader = self._socket.makefile("rb")

    def request(self, method, path, body=None, token=""):
        """(status, body)."""
        data = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\n{TOKEN_HEADER}: {token}\r\nContent-Length: {len(data)}\r\n\r\n"
        self._socket.sendall(head.encode() + data)
        status = int(self._reader.readline().split()[1])
        headers = {}
        while line := self._reader.readline().strip():
            name, _, value = line.partition(b":")
            headers[name.strip().lower()] = value.strip()
        if headers.get(b"transfer-encoding") != b"chunked":
            return status, self._reader.read(int(headers.get(b"content-length", 0)))
        text = b""
        while chunk := self._reader.read(int(self._reader.readline(), 16) + 2)[:-2]:
            text += chunk
        return status, text

    def close(self):
        self._reader.close()
        self._socket.close()


def live_and_die(daemon, id):
    """A sandbox from create to remove, over the connection of the calling thread."""
    status, text = daemon.request("POST", "/v1/sandboxes", {"id": id, "image": "host"})
    if status != 201:
        raise Wrong(f"create {id}: {status} {text}")
    sandbox = json.loads(text)
    execd = Connection(sandbox["execd_socket"])
    status, text = execd.request("POST", "/command", {"command": "echo alive"}, sandbox["execd_token"])
    execd.close()
    if status != 200 or b"alive" not in text:
        raise Wrong(f"command in {id}: {status} {text}")
    status, text = daemon.request("DELETE", f"/v1/sandboxes/{id}")
    if status != 204:
        raise Wrong(f"remove {id}: {status} {text}")


def cycle(daemon, first, count, at_once, until=math.inf):
    """`count` sandboxes, fewer when the time is up. Returns how many, and how many per second."""
    numbers = iter(range(first, first + count))
    done = itertools.count(1)
    last = 0
    lock = threading.Lock()
    failures = []

    def work():
        nonlocal last
        connection = Connection(daemon.run / "sandboxd.sock")
        try:
            while not failures and time.monotonic() < until:
                with lock:
                    number = next(numbers, None)
                if number is None:
                    return
                live_and_die(connection, f"cycle-{number}")
                last = next(done)
        except Exception as failure:  # any of them ends the run
            failures.append(failure)
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(at_once)]
    begin = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return last, last / (time.monotonic() - begin)


def settle(daemon):
    """Until what happens after an answer has happened: trash is gone, and so are the interfaces of dropped slots."""
    host_state.wait_for_empty(daemon.state / "trash", seconds=60)
    host_state.wait_for_links(
        lambda: host_state.interfaces() == host_state.member_interfaces(),
        lambda: f"interfaces {host_state.interfaces()}, admitted {host_state.member_interfaces()}", seconds=60)


def kinds(pid):
    """How many descriptors of each kind, without the ready slots' namespaces."""
    found = collections.Counter(target.split(":")[0].split("-")[0] for target in
                                host_state.descriptors(pid).values())
    del found["net"], found["user"]
    return found


def measure(daemon):
    settle(daemon)
    ready = len(host_state.interfaces())
    return {
        "files": host_state.files(daemon),
        "sandboxes": daemon.list(),
        "cgroups": host_state.cgroups(daemon),
        "processes": host_state.processes(daemon),
        "mounts": sorted(host_state.mounts(daemon.pid)),
        "mounts seen outside": sorted(path for path in host_state.mounts("self") if str(daemon.directory) in path),
        "descriptors": dict(kinds(daemon.pid)),
        "namespaces besides those of ready slots": len(host_state.network_namespaces(daemon.pid)) - ready,
        "lines of the firewall besides those of ready slots": host_state.firewall_lines() - ready,
        "too many ready slots": max(0, ready - MOST_READY),
    }


def run(daemon, sandboxes, at_once, max_growth, minutes=60):
    """Raises AssertionError if something was left or grew; otherwise returns the figures."""
    warm_up = max(100, sandboxes // 10)
    until = time.monotonic() + minutes * 60
    cycle(daemon, 0, warm_up, at_once)
    before, rss_before = measure(daemon), host_state.rss_kib(daemon.pid)
    done, rate = cycle(daemon, warm_up, sandboxes, at_once, until)
    after, rss_after = measure(daemon), host_state.rss_kib(daemon.pid)
    for what, value in before.items():
        assert after[what] == value, f"{what}: {value} before, {after[what]} after"
    figures = {"sandboxes": done, "at once": at_once, "per second": round(rate, 1),
               "RSS before, KiB": rss_before, "RSS after, KiB": rss_after}
    assert rss_after - rss_before <= max_growth, f"memory grew: {figures}"
    return figures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sandboxes", type=int, default=10000)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--max-growth", type=int, default=4096, metavar="KIB")
    options = parser.parse_args()
    daemon = Sandboxd(settings={"network": {"ready_slots": READY_SLOTS}, "daemon": {"log_level": "warn"}})
    try:
        figures = run(daemon, options.sandboxes, options.at_once, options.max_growth, options.minutes)
    except (AssertionError, Wrong) as failure:
        print(failure, daemon.log()[-4000:], sep="\n", file=sys.stderr)
        return 1
    finally:
        daemon.close()
    print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
