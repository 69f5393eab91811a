"""Sandboxes with a network policy on Docker: what the sidecar adds to a create, and what it holds."""

import contextlib
import pathlib
import statistics
import subprocess
import time

# Half of the rules are names, half networks.
POLICY = {"defaultAction": "deny", "egress": [{"action": "allow", "target": f"n{i}.test"} for i in range(25)]
          + [{"action": "allow", "target": f"11.{i}.0.0/24"} for i in range(25)]}
COMMAND = ["tail", "-f", "/dev/null"]


def milliseconds(action):
    begin = time.monotonic()
    made = action()
    return (time.monotonic() - begin) * 1000, made


def worker_rss_mib(engine, id):
    """(of the process that enforces, of the one that starts it again)."""
    first = engine.ask("GET", f"/containers/sandbox-egress-{id}/json")["State"]["Pid"]
    shown = engine.ask("GET", f"/containers/sandbox-egress-{id}/top", params={"ps_args": "-eo pid,ppid,rss"})["Processes"]
    sizes = {int(pid) == first: int(rss) / 1024 for pid, _, rss in shown}
    return sizes[False], sizes[True]


def measure(creates, work):
    """Creates with and without a policy and bare containers take turns; p50 in milliseconds."""
    from docker_engine import EGRESS_IMAGE, Engine
    from registry import busybox_layer, hard_link
    from server_process import Server
    data = pathlib.Path(work) / "data"
    data.mkdir()
    with contextlib.ExitStack() as stack:
        # On disk, as everywhere else.
        engine = stack.enter_context(contextlib.closing(Engine(data=data, host_image=False)))
        engine.load("host:latest", [busybox_layer(bin__tail=hard_link("bin/busybox"))])
        engine.load_egress()
        server = stack.enter_context(contextlib.closing(
            Server(engine, settings={"egress": {"image": EGRESS_IMAGE, "dns_upstream": ["192.0.2.53"]}})))

        def bare():
            run = ["docker", "-H", engine.url, "run", "-d", "--label", "bench=1", "host", *COMMAND]
            subprocess.run(run, check=True, stdout=subprocess.DEVNULL)

        samples = {"without a policy": [], "with a policy": [], "docker run": []}
        resident = []
        for number in range(creates + 1):
            for name in samples:
                if name == "docker run":
                    took, _ = milliseconds(bare)
                    for each in engine.containers(bench="1"):
                        engine.ask("DELETE", f"/containers/{each['Id']}", params={"force": "1"})
                else:
                    fields = {"networkPolicy": POLICY} if name == "with a policy" else {}
                    took, made = milliseconds(lambda: server.create(entrypoint=COMMAND, **fields))
                    if fields:
                        resident.append(worker_rss_mib(engine, made["id"]))
                    server.delete(made["id"])
                if number > 0:  # the first of each has work to do that is done once
                    samples[name].append(took)
        return {**{name: statistics.median(each) for name, each in samples.items()},
                "rss_mib": statistics.median(each[0] for each in resident),
                "supervisor_mib": statistics.median(each[1] for each in resident), "creates": creates}
