"""Official clients against our server: installs them, runs their suites on every backend, makes the table.

Without arguments everything is run, and docs/conformance.json and docs/conformance.md are written. With a choice of
clients, versions, backends or features only those are run, and nothing is written. README.md has the details.
"""

import argparse
import json
import os
import pathlib
import queue
import shutil
import subprocess
import sys
import threading
import time

import table
from features import FEATURES, OPTIONAL

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ORDER = ["python", "cli", "mcp", "code_interpreter", "javascript", "java", "go"]
RANK = {"works": 0, "not offered": 1, "fails": 2}


def backends():
    """The backends that can be run here."""
    return ["native", *(["docker"] if shutil.which("dockerd") else [])]


def clients(chosen, versions):
    found = []
    for name in sorted((path.parent.name for path in HERE.glob("*/client.json")),
                       key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name)):
        if chosen and name not in chosen:
            continue
        client = {**json.loads((HERE / name / "client.json").read_text()), "folder": HERE / name}
        client["versions"] = [each for each in client["versions"] if not versions or each["version"] in versions]
        if client["versions"]:
            found.append(client)
    return found


def install(client, version):
    """Where it is, and why it is not there."""
    folder = ROOT / "build" / "clients" / f"{client['folder'].name}-{version['version']}"
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run([client["folder"] / "install", version["version"], folder], stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode == 0:
        return folder, ""
    said = done.stderr.strip().splitlines()
    return folder, (said[-1] if said else f"install ended with {done.returncode}")[:300]


def commit():
    def git(*words):
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", "src", "apps", "deploy")
    return git("rev-parse", "--short=10", "HEAD") + (" with changes" if changed else "")


def start_backend(backend, asked, binaries, events):
    """Its suites run beside those of the other backends; what they say comes as (backend, event)."""
    environment = {**os.environ, "BACKEND": backend, "EXECD_BINARY": str(binaries / "execd"),
                   "SANDBOXD_BINARY": str(binaries / "sandboxd"),
                   "SERVER_BINARY": str(binaries / "opensandbox-server"),
                   "EGRESS_BINARY": str(binaries / "opensandbox-egress")}
    process = subprocess.Popen([ROOT / "tests/privileged/in_namespace", sys.executable, "-B", HERE / "inside.py"],
                               env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    process.stdin.write(json.dumps(asked))
    process.stdin.close()

    def forward():
        for line in process.stdout:
            events.put((backend, json.loads(line)))
        events.put((backend, {"event": "over", "code": process.wait()}))

    threading.Thread(target=forward, daemon=True).start()
    return process


def record(results, backend, event):
    """The worse of the two ways counts."""
    reason = event["reason"]
    if event["proxied"] and reason:
        reason = f"through the proxy: {reason}"
    cells = results.setdefault(event["feature"], {})
    before = cells.get(backend)
    if before is None or RANK[event["result"]] > RANK[before["result"]]:
        cells[backend] = {"result": event["result"], "reason": reason}


def follow(running, events, columns, say, colour):
    """Tells what happens and records it until all backends are through; the backends and suites that broke."""
    broken = []
    while running:
        backend, event = events.get()
        if event["event"] == "over":
            running -= 1
            if event["code"]:
                broken.append(f"{backend} ended with {event['code']}")
            continue
        name, entry = columns[event["suite"]]
        where = f"{name} on {backend}{' through the proxy' if event['proxied'] else ''}"
        if event["event"] == "feature":
            record(entry["results"], backend, event)
            sign, code = table.SIGNS[event["result"]]
            sign = f"\033[{code}m{sign}\033[0m" if colour else sign
            say(f"{sign} {where}: {event['feature']} ({event['seconds']} s)"
                + (f": {event['reason']}" if event["reason"] else ""))
        elif event["event"] == "start":
            say(where)
        elif event["trouble"]:
            say(f"{where}: {event['trouble']}")
            broken.append(f"{where}: {event['trouble']}")
    return broken


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--client", action="append", default=[], help="a folder of tests/clients, such as python")
    parser.add_argument("--version", action="append", default=[])
    parser.add_argument("--backend", action="append", default=[], choices=["native", "docker"])
    parser.add_argument("--feature", action="append", default=[], choices=[*FEATURES, *OPTIONAL])
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("-v", "--verbose", action="store_true", help="show what the suites write to standard error")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("conformance: needs root, as sandboxd and dockerd do")
    begun = time.monotonic()
    colour = sys.stdout.isatty()
    chosen = backends() if not arguments.backend else arguments.backend
    partly = bool(arguments.client or arguments.version or arguments.backend or arguments.feature)

    def say(text):
        print(f"{time.monotonic() - begun:6.1f} s  {text}", flush=True)

    recorded, suites, columns, missing = [], [], [], 0
    for client in clients(arguments.client, arguments.version):
        kept = {name: client[name] for name in ("name", "package", "registry")} | {"versions": []}
        recorded.append(kept)
        for version in client["versions"]:
            say(f"installing {client['package']} {version['version']}")
            folder, trouble = install(client, version)
            entry = {"version": version["version"], "why": version["why"], "unavailable": trouble, "results": {}}
            kept["versions"].append(entry)
            if trouble:
                say(f"could not be fetched: {trouble}")
                missing += not version.get("may_be_missing")
                continue
            suites.append({"version": version["version"], "folder": str(folder), "run": str(client["folder"] / "run"),
                           "proxied": bool(version.get("proxied")), "features": client.get("features")})
            columns.append((f"{client['name']} {version['version']}", entry))

    events = queue.Queue()
    asked = {"suites": suites, "features": arguments.feature, "verbose": arguments.verbose}
    processes = [start_backend(backend, asked, arguments.binaries, events) for backend in chosen] if suites else []
    try:
        broken = follow(len(processes), events, columns, say, colour)
    finally:  # when this program is stopped, they still have to clean up
        for process in processes:
            if process.poll() is None:
                process.terminate()
        for process in processes:
            process.wait()

    for _, entry in columns:  # in the table's order, not in order of completion
        entry["results"] = {name: {backend: entry["results"][name][backend] for backend in chosen
                                   if backend in entry["results"][name]}
                            for name in [*FEATURES, *OPTIONAL] if name in entry["results"]}
    whole = {"commit": commit(), "command": "scripts/conformance", "backends": chosen, "clients": recorded}
    print()
    print(table.terminal(whole, colour))
    say(f"{len(columns)} clients and versions on {' and '.join(chosen)}, {table.failures(whole)} failures"
        + (f", {missing} not installed" if missing else ""))
    if broken:
        sys.exit(f"conformance: {'; '.join(broken)}")
    if not partly:
        table.RECORDED.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n")
        table.PAGE.write_text(table.page_with(table.markdown(whole), table.PAGE.read_text()))
        say("written: docs/conformance.json, docs/conformance.md")
    sys.exit(1 if table.failures(whole) or missing else 0)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("conformance: stopped")
