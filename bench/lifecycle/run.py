#!/usr/bin/env python3
"""What the newer parts of the protocol cost, on the native runtime: the wake of an idle sandbox, creates from a template,
isolated sessions, and the watch for activity.

Needs root. Starts a sandboxd and a server of its own, in a network namespace of their own. Pairs are measured in turns, so
that a busy moment hits both.
"""

import contextlib
import http.client
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness  # noqa: E402
import report  # noqa: E402

SERVE = "busybox httpd -f -p 8000 -h /tmp"
IDLE = {"idlePolicy": {"idleTimeoutSeconds": 1800, "onIdle": "pause"}}
WARM = ["sh", "-c", "echo warm > /root/warm; exec sleep 100000"]


class Wire:
    """One keep-alive connection, and how long the first byte of an answer takes."""

    def __init__(self, port, headers=None):
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._connection.connect()
        self._headers = headers or {}

    def ask(self, method, path, body=None):
        """(ms until the head, ms until the end, status, text)."""
        headers = dict(self._headers)
        if body is not None:
            body = json.dumps(body)
            headers["Content-Type"] = "application/json"
        begin = time.perf_counter()
        self._connection.request(method, path, body, headers)
        response = self._connection.getresponse()
        head = time.perf_counter()
        text = response.read()
        return (head - begin) * 1000, (time.perf_counter() - begin) * 1000, response.status, text

    def close(self):
        self._connection.close()


def p50(values):
    return statistics.median(values)


class Bench:
    def __init__(self, directory):
        from sandboxd_process import Sandboxd
        from server_process import KEY_HEADER, Server
        directory.mkdir()
        self.daemon = Sandboxd(directory=directory, settings={"network": {"ready_slots": 64},
                                                              "daemon": {"log_level": "warn"}})
        self.server = Server(self.daemon)
        self.api = Wire(self.server.port, {KEY_HEADER: self.server.key})

    @property
    def pids(self):
        return [self.daemon.pid, self.server.process.pid]

    def close(self):
        self.api.close()
        self.server.close()
        self.daemon.close()


def wake(bench, count):
    """The first byte of a proxied answer, of a sandbox that runs and of the same one paused."""
    id = bench.server.create(lifecycle=IDLE, entrypoint=["sh", "-c", f"echo x > /tmp/file; exec {SERVE}"])["id"]
    path = f"/sandboxes/{id}/proxy/8000/file"
    while bench.api.ask("GET", path)[2] != 200:
        time.sleep(0.01)
    running, paused = [], []
    for _ in range(count):
        head, _, status, _ = bench.api.ask("GET", path)
        assert status == 200, status
        running.append(head)
        _, _, status, text = bench.api.ask("POST", f"/v1/sandboxes/{id}/pause")
        assert status == 202, text
        head, _, status, text = bench.api.ask("GET", path)
        assert status == 200, text
        paused.append(head)
    bench.server.delete(id)
    return {"running": p50(running), "woken": p50(paused)}


def tracking(bench, count):
    """Proxied calls of a sandbox whose activity is watched, and of one without an idlePolicy."""
    ids = [bench.server.create(entrypoint=["sh", "-c", f"echo x > /tmp/file; exec {SERVE}"], **fields)["id"]
           for fields in ({}, {"lifecycle": IDLE})]
    seen = ([], [])
    for id in ids:
        while bench.api.ask("GET", f"/sandboxes/{id}/proxy/8000/file")[2] != 200:
            time.sleep(0.01)
    for _ in range(count):
        for id, values in zip(ids, seen):
            _, whole, status, _ = bench.api.ask("GET", f"/sandboxes/{id}/proxy/8000/file")
            assert status == 200, status
            values.append(whole)
    for id in ids:
        bench.server.delete(id)
    return {"without": p50(seen[0]), "watched": p50(seen[1])}


def templates(bench, count):
    """Creates until Running: from a snapshot and from a template that has the same files."""
    source = bench.server.create(entrypoint=WARM)["id"]
    snapshot = bench.server.client.post(f"/v1/sandboxes/{source}/snapshots", json={}).json()["id"]
    bench.server.client.get(f"/v1/snapshots/{snapshot}", params={"wait": 60})
    bench.server.delete(source)
    made = bench.server.client.post("/v1/templates", json={"image": "host", "publish": "local://", "entrypoint": WARM,
                                                          "resourceLimits": {"cpu": "1", "memory": "512Mi"},
                                                          "readiness": {"probe": "cmd://test -f /root/warm"}}).json()
    settled = bench.server.client.get(f"/v1/templates/{made['templateId']}", params={"wait": 120}).json()
    assert settled["status"]["phase"] == "Succeeded", settled
    bodies = ({"snapshotId": snapshot, "entrypoint": WARM, "timeout": 600,
               "resourceLimits": {"cpu": "1", "memory": "512Mi"}},
              {"templateId": made["templateId"], "timeout": 600})
    seen = ([], [])
    for number in range(count + 3):
        for body, values in zip(bodies, seen):
            _, whole, status, text = bench.api.ask("POST", "/v1/sandboxes?wait=60", body)
            answer = json.loads(text)
            assert status == 202 and answer["status"]["state"] == "Running", text
            if number >= 3:  # the first ones prepare the rest
                values.append(whole)
            bench.server.delete(answer["id"])
    return {"snapshot": p50(seen[0]), "template": p50(seen[1])}


def isolated(bench, count):
    """Create of an isolated session, also one with a user namespace, and `true` in the first beside `true` in a plain
    session; by execd's own port."""
    id = bench.server.create(extensions={"bootstrap.execd.isolation": "enable"})["id"]
    wire = Wire(bench.server.port, bench.server.token(id))
    execd = f"/sandboxes/{id}/proxy/44772"
    made, nested, sessions = [], [], []
    for _ in range(count):
        for fields, values in (({"uid": 1000, "uid_mode": "userns"}, nested), ({}, made)):
            _, whole, status, text = wire.ask("POST", f"{execd}/v1/isolated/session",
                                              {"workspace": {"path": "/workspace"}, **fields})
            assert status == 201, text
            values.append(whole)
            sessions.append(json.loads(text)["session_id"])
            if len(sessions) > 1:
                assert wire.ask("DELETE", f"{execd}/v1/isolated/session/{sessions.pop(0)}")[2] in (200, 204)
    plain = json.loads(wire.ask("POST", f"{execd}/session", {})[3])["session_id"]
    seen = ([], [])
    for number in range(count + 3):
        for path, body, values in ((f"{execd}/session/{plain}/run", {"command": "true"}, seen[0]),
                                   (f"{execd}/v1/isolated/session/{sessions[0]}/run", {"code": "true"}, seen[1])):
            _, whole, status, text = wire.ask("POST", path, body)
            assert status == 200, text
            if number >= 3:
                values.append(whole)
    wire.close()
    bench.server.delete(id)
    return {"create": p50(made), "nested": p50(nested), "plain": p50(seen[0]), "isolated": p50(seen[1])}


def bubblewrap(count):
    """`true` in namespaces that bwrap makes, as the original's sessions do for each run."""
    program = shutil.which("bwrap")
    if program is None:
        return None
    words = [program, "--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/", "/", "--proc", "/proc",
             "--dev", "/dev", "--tmpfs", "/tmp", "--", "true"]
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        subprocess.run(words, check=True, stdin=subprocess.DEVNULL)
        times.append((time.perf_counter() - begin) * 1000)
    return p50(times)


def measure(options, work):
    count = 20 if options.quick else 200
    foreign, rounds = [], []
    with contextlib.closing(Bench(work / "sandboxes")) as bench:
        for _ in range(options.rounds):
            others = report.Foreign(bench.pids)
            rounds.append({"wake": wake(bench, count), "tracking": tracking(bench, count * 5),
                           "templates": templates(bench, count // 4), "isolated": isolated(bench, count)})
            foreign.append(others.share())
            print(f"  {rounds[-1]}", flush=True)
    out = {part: {name: p50([each[part][name] for each in rounds]) for name in rounds[0][part]} for part in rounds[0]}
    return {**out, "bwrap": bubblewrap(count), "others": p50(foreign)}


def markdown(out, options):
    quiet = out["others"] <= report.Foreign.LIMIT
    rows = []

    def row(what, value, target, ok):
        rows.append([what, value, target, report.verdict(ok, quiet)])

    wakes, tracked, made, runs = out["wake"], out["tracking"], out["templates"], out["isolated"]
    added = wakes["woken"] - wakes["running"]
    row("first byte of a proxied answer, idle and paused above running, p50",
        f"{added:.2f} ms ({wakes['woken']:.2f} against {wakes['running']:.2f})", "≤ 5 ms", added <= 5)
    row("create → Running from a template, p50, against a snapshot's",
        f"{made['template']:.2f} ms ({made['snapshot']:.2f})", "the same (within 10%)",
        made["template"] <= made["snapshot"] * 1.1)
    row("an isolated session, create, p50", f"{runs['create']:.2f} ms", "≤ 8 ms", runs["create"] <= 8)
    row("one with a user namespace, create, p50", f"{runs['nested']:.2f} ms", "≤ 8 ms", runs["nested"] <= 8)
    row("`true` in the first, p50, against a plain session's", f"{runs['isolated']:.2f} ms ({runs['plain']:.2f})", "≤ 2x",
        runs["isolated"] <= 2 * runs["plain"])
    if out["bwrap"] is not None:
        row("`true` under Debian's bwrap, which the original needs, p50", f"{out['bwrap']:.2f} ms", "", True)
    cost = tracked["watched"] - tracked["without"]
    row("a proxied call with the activity watched, p50, above one without", f"{cost * 1000:+.0f} µs "
        f"({tracked['watched']:.3f} ms against {tracked['without']:.3f})", "nothing (≤ 3%)",
        cost <= 0.03 * tracked["without"])
    return (report.table(["what", "measured", "target", ""], rows) +
            f"\n\nThrough the server's proxy by one connection; others took {out['others']:.0%} of the machine.")


if __name__ == "__main__":
    harness.main(harness.Part("lifecycle", "Idle sandboxes, templates, isolated sessions", __doc__, measure, markdown,
                              rounds=3, tools=("busybox",)))
