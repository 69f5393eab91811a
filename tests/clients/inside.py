"""Runs suites one after the other against a server on one backend. A part of run.py: started in a network namespace of
its own, reads the suites as JSON from standard input, and writes what happens as lines of JSON.

    {"suite": n, "proxied": bool, "event": "start" | "feature" | "end", ...}

An "end" has a "trouble" when the suite as a whole failed.
"""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))

from backend import backend  # noqa: E402
from fake_internet import FakeInternet  # noqa: E402
from features import FEATURES, OPTIONAL, PROXIED, RESULTS  # noqa: E402
from policy_backend import make_policy_daemon  # noqa: E402
from server_process import Server  # noqa: E402

SECONDS = 600
# Clients that cannot send the headers of an endpoint: the Java client, and the first Python versions.
SETTINGS = {"server": {"headerless_clients": ["OpenSandbox-Kotlin-SDK/", "OpenSandbox-Python-SDK/0.1.0"]}}


def tell(**event):
    print(json.dumps(event, ensure_ascii=False), flush=True)


def parsed(line, wanted):
    """The result in a line of a suite, or nothing."""
    try:
        said = json.loads(line)
    except ValueError:
        return None
    if not isinstance(said, dict) or said.get("feature") not in wanted or said.get("result") not in RESULTS:
        return None
    return {"feature": said["feature"], "result": said["result"],
            "reason": " ".join(str(said.get("reason") or "").split())[:300], "seconds": said.get("seconds", 0)}


def run(server, number, suite, proxied, only, verbose):
    offered = suite["features"] or [*FEATURES, *OPTIONAL]
    wanted = [name for name in offered if (name in PROXIED or not proxied) and (not only or name in only)]
    if not wanted:
        return
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    environment |= {
        "CLIENT_VERSION": suite["version"], "CLIENT_DIR": suite["folder"], "OSB_SERVER": server.url,
        "OSB_API_KEY": server.key, "OSB_BACKEND": backend(), "OSB_IMAGE": "host", "OSB_PROXY": "1" if proxied else "0",
        "OSB_FEATURES": ";".join(wanted), "OSB_PARALLEL": "50",
        **({"OSB_VERBOSE": "1"} if verbose else {})}
    tell(suite=number, proxied=proxied, event="start")
    seen = {}
    with tempfile.TemporaryDirectory(prefix="client-") as home, tempfile.TemporaryFile() as errors:
        environment["HOME"] = home
        process = subprocess.Popen([suite["run"]], env=environment, cwd=home, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=None if verbose else errors, text=True,
                                   start_new_session=True)
        late = threading.Event()

        def end():
            late.set()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

        watchdog = threading.Timer(SECONDS, end)
        watchdog.start()
        try:
            for line in process.stdout:
                if result := parsed(line, wanted):
                    seen[result["feature"]] = result
                    tell(suite=number, proxied=proxied, event="feature", **result)
            code = process.wait()
        finally:
            watchdog.cancel()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # processes that it left
        process.stdout.close()
        errors.seek(0)
        said = errors.read().decode(errors="replace").strip().splitlines()
    why = f"the suite was ended after {SECONDS} s" if late.is_set() else f"the suite ended with {code}"
    # Optional features are for clients that have them: those that name them.
    required = [name for name in wanted if name not in OPTIONAL or name in (suite["features"] or [])]
    for name in required:
        if name not in seen:
            tell(suite=number, proxied=proxied, event="feature", feature=name, result="fails", seconds=0,
                 reason=f"{why}; {said[-1] if said else 'it said nothing'}"[:300])
    left = [each["id"] for each in server.client.get("/v1/sandboxes", params={"pageSize": 200}).json()["items"]]
    kept = [each["id"] for each in server.client.get("/v1/snapshots", params={"pageSize": 200}).json()["items"]]
    built = [each["templateId"] for each in server.client.get("/v1/templates", params={"pageSize": 200}).json()["items"]]
    if left or kept or built:
        server.remove_all()
        for id in built:
            server.client.delete(f"/v1/templates/{id}")
        for id in kept:
            server.client.delete(f"/v1/snapshots/{id}")
        tell(suite=number, proxied=proxied, event="feature", feature="lifecycle", result="fails", seconds=0,
             reason=f"left behind: {len(left)} sandboxes, {len(kept)} snapshots, {len(built)} templates")
    tell(suite=number, proxied=proxied, event="end", trouble=why if late.is_set() or code != 0 else "")


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    asked = json.load(sys.stdin)
    internet = FakeInternet()
    daemon, settings = make_policy_daemon()
    server = Server(daemon, settings={**SETTINGS, **settings})
    try:
        for number, suite in enumerate(asked["suites"]):
            for proxied in (False, True) if suite["proxied"] else (False,):
                run(server, number, suite, proxied, asked["features"], asked["verbose"])
    finally:
        server.close()
        daemon.close()
        internet.close()


if __name__ == "__main__":
    main()
