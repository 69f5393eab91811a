#!/usr/bin/env python3
"""The DNS proxy of opensandbox-egress beside dnsmasq, and what enforcement and a sidecar cost, alone and on Docker.

Servers run on core 0, load and upstream on core 1; variants take turns within every round and the median counts.
"""

import contextlib
import json
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import containers  # noqa: E402
import harness  # noqa: E402
import report  # noqa: E402
from egress_process import EgressProcess  # noqa: E402

SERVER_CORE, LOAD_CORE = 0, 1
SANDBOXES, IN_FLIGHT = 64, 4
NAMES = 2000  # more than are asked for while names are new
TOKEN = "YmVuY2htYXJr"


class Host(EgressProcess):
    """The process of a host, with sandboxes of one policy."""

    def __init__(self, program, upstream, policy):
        super().__init__(program, core=SERVER_CORE)
        self.send({"type": "hello", "resolvers": [f"127.0.0.1:{upstream}"], "maxAddresses": 4096})
        for number in range(SANDBOXES):
            self.send({"type": "sandbox", "id": f"s{number}", "address": f"127.0.1.{number + 1}", "revision": 1,
                       "policy": policy, "token": TOKEN})


class Bench:
    def __init__(self, options, work, stack):
        self.options, self.work, self.stack = options, work, stack
        self.bin, self.pids, self.foreign = pathlib.Path(options.build) / "bin", [], []
        self.run_number = 0

    def start(self, command, core, ready):
        pid = self.stack.enter_context(report.running(command, core=core, ready=ready))
        self.pids.append(pid)
        return pid

    def load(self, port, pid, sockets, in_flight, names, fresh):
        """One run. `fresh`: every run asks for names that nobody asked for before."""
        self.run_number += 1
        prefix = f"r{self.run_number}n" if fresh else "n"
        before = report.cpu_seconds(pid)
        out = subprocess.run(["taskset", "-c", str(LOAD_CORE), self.bin / "bench_dns_load", *map(str, (
            port, sockets, in_flight, self.options.seconds, names, prefix))], capture_output=True, text=True, check=True)
        result = json.loads(out.stdout)
        after = report.cpu_seconds(pid)
        assert result["wrong"] <= result["count"] / 100, result
        result["cpu_us"] = (after - before) * 1e6 / result["count"]
        result["per_core"] = 1e6 / result["cpu_us"] if result["cpu_us"] else 0
        return result

    def compare(self, variants, sockets, in_flight, names, fresh):
        measures = {name: (lambda port=port, pid=pid: self.load(port, pid, sockets, in_flight, names, fresh))
                    for name, (port, pid) in variants.items()}
        return report.rounds(self.options.rounds, measures, self.pids, self.foreign)


class Sidecar:
    def __init__(self, bench, policy):
        rules = bench.work / "rules"
        rules.mkdir(exist_ok=True)
        notify = str(bench.work / "notify")
        pathlib.Path(notify).unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready:
            ready.bind(notify)
            env = {"PATH": os.environ["PATH"], "NOTIFY_SOCKET": notify, "OPENSANDBOX_EGRESS_TOKEN": TOKEN,
                   "OPENSANDBOX_EGRESS_MODE": "dns+nft", "OPENSANDBOX_EGRESS_DNS_UPSTREAM": f"127.0.0.1:{bench.upstream}",
                   "OPENSANDBOX_EGRESS_LOG_LEVEL": "warn", "OPENSANDBOX_EGRESS_RULES": json.dumps(policy)}
            script = 'mount -t tmpfs none /var && mkdir -p /var/egress/rules && date +%s.%N >"$1/began" && exec "$2"'
            self.process = subprocess.Popen(["taskset", "-c", str(SERVER_CORE), "unshare", "--mount", "sh", "-c", script,
                                             "sh", str(bench.work), str(bench.bin / "opensandbox-egress")], env=env)
            ready.settimeout(30)
            ready.recv(100)
            healthy = time.time()
        self.start_ms = (healthy - float((bench.work / "began").read_text())) * 1000
        self.pid, self.port = self.process.pid, 15353

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(10)
        # It leaves everything closed, and what comes next needs this network namespace.
        subprocess.run(["nft", "delete", "table", "inet", "opensandbox"], check=True)


def sidecar_figures(bench):
    starts, sizes = [], []
    for _ in range(max(3, bench.options.rounds)):
        with contextlib.closing(Sidecar(bench, {"egress": [{"action": "allow", "target": "*.example.com"}]})) as made:
            starts.append(made.start_ms)
            sizes.append(report.memory_kib(made.pid, "VmRSS"))
    return {"start_ms": statistics.median(starts), "rss_mib": statistics.median(sizes) / 1024}


def image_mib(bench):
    """Of the archive that `make images` writes."""
    archive = bench.work / "egress.tar"
    subprocess.run([sys.executable, harness.ROOT / "scripts" / "images", "egress", "--program", bench.bin / "opensandbox-egress",
                    "--out", archive, "--no-load"], check=True, stdout=subprocess.DEVNULL)
    return archive.stat().st_size / (1 << 20)


def enforcement(bench):
    """New names, one after the other: with nothing to open, and with an address to open in nftables for each."""
    exact = {"egress": [{"action": "allow", "target": f"closed{number}.test"} for number in range(NAMES)]}
    variants = {"nothing to open": {"defaultAction": "allow"}, "opened first": exact}
    out = {name: [] for name in variants}
    for _ in range(bench.options.rounds):
        for name, policy in variants.items():
            with contextlib.closing(Sidecar(bench, policy)) as made:
                run = subprocess.run(["taskset", "-c", str(LOAD_CORE), bench.bin / "bench_dns_load", str(made.port), "1", "1",
                                      "0.3", str(NAMES), "closed"], capture_output=True, text=True, check=True)
                out[name].append(json.loads(run.stdout))
    return {name: {key: statistics.median(run[key] for run in runs) for key in ("p50", "p90", "p99", "per_s")}
            for name, runs in out.items()}


def measure(options, work):
    with contextlib.ExitStack() as stack:
        bench = Bench(options, work, stack)
        bench.upstream = report.free_port()
        bench.start([bench.bin / "bench_dns_upstream", bench.upstream], LOAD_CORE, "listening")
        host = stack.enter_context(contextlib.closing(Host(bench.bin / "opensandbox-egress", bench.upstream,
                                                           {"defaultAction": "allow"})))
        bench.pids.append(host.pid)
        port = report.free_port()
        masq = bench.start(["dnsmasq", "--keep-in-foreground", f"--port={port}", "--listen-address=127.0.0.1",
                            "--bind-interfaces", "--no-resolv", "--no-hosts", f"--server=127.0.0.1#{bench.upstream}",
                            "--cache-size=10000", "--dns-forward-max=10000", "--user=root", "--conf-file=/dev/null",
                            "--pid-file=", "--log-facility=-"], SERVER_CORE, "using nameserver")
        variants = {"opensandbox-egress": (host.port, host.pid), "dnsmasq": (port, masq)}
        data = {}
        # One at a time: from all sandboxes in turn, because each may ask 5,000 questions a second.
        for name, arguments in {"cached, one at a time": (SANDBOXES, 0, 100, False),
                                "cached, many": (SANDBOXES, IN_FLIGHT, 100, False),
                                "forwarded, one at a time": (SANDBOXES, 0, 10**9, True),
                                "forwarded, many": (SANDBOXES, IN_FLIGHT, 10**9, True)}.items():
            print(name)
            data[name] = bench.compare(variants, *arguments)
        data["sidecar"] = {**sidecar_figures(bench), "image_mib": image_mib(bench)}
        data["enforcement"] = enforcement(bench)
        os.environ.setdefault("EGRESS_BINARY", str(bench.bin / "opensandbox-egress"))
        data["docker"] = containers.measure(2 if options.quick else 15, work)
        data["others"] = statistics.median(bench.foreign)
        return data


def markdown(data, options):
    quiet = data["others"] <= report.Foreign.LIMIT
    groups = [name for name in data if "at a time" in name or "many" in name]
    rows = []
    for group in groups:
        for name, each in data[group].items():
            rows.append([group, name, f"{each['per_s']:,.0f}", f"{each['per_core']:,.0f}", f"{each['p50'] * 1000:,.0f}",
                         f"{each['p99'] * 1000:,.0f}"])

    def ratio(group, key):
        ours, theirs = data[group]["opensandbox-egress"][key], data[group]["dnsmasq"][key]
        return ours / theirs

    targets = []
    for kind in ("cached", "forwarded"):
        for key in ("p50", "p99"):
            got = ratio(f"{kind}, one at a time", key)
            targets.append([f"{kind}: {key} at most 1.2x dnsmasq's", f"{got:.2f}", report.verdict(got <= 1.2, quiet)])
        got = ratio(f"{kind}, many", "per_core")
        targets.append([f"{kind}: at least dnsmasq's answers per core", f"{got:.2f}", report.verdict(got >= 1, quiet)])
    opened = data["enforcement"]["opened first"]["p50"] - data["enforcement"]["nothing to open"]["p50"]
    targets += [
        ["a new name whose address is opened: at most 0.3 ms more", f"{opened:.3f} ms", report.verdict(opened <= 0.3, quiet)],
        ["sidecar: at most 6 MiB resident", f"{data['sidecar']['rss_mib']:.1f} MiB",
         report.verdict(data["sidecar"]["rss_mib"] <= 6, quiet=True)],
        ["sidecar: image at most 10 MiB", f"{data['sidecar']['image_mib']:.1f} MiB",
         report.verdict(data["sidecar"]["image_mib"] <= 10, quiet=True)],
        ["sidecar: healthy at most 20 ms after exec", f"{data['sidecar']['start_ms']:.1f} ms",
         report.verdict(data["sidecar"]["start_ms"] <= 20, quiet)],
    ]
    docker = data["docker"]
    more = docker["with a policy"] - docker["without a policy"]
    targets += [
        ["Docker: the sidecar's worker at most 6 MiB resident", f"{docker['rss_mib']:.1f} MiB",
         report.verdict(docker["rss_mib"] <= 6, quiet=True)],
        ["Docker: a create with a policy at most one `docker run` more", f"{more:.0f} ms",
         report.verdict(more <= docker["docker run"], quiet)]]
    creates = [[name, f"{docker[name]:.0f}"] for name in ("without a policy", "with a policy", "docker run")]
    return "\n\n".join([
        f"One core for the server, one for load and upstream; `many`: {SANDBOXES} sandboxes with {IN_FLIGHT} questions in "
        f"flight each; {options.seconds} s per run, median of {options.rounds} interleaved rounds. Other programs took "
        f"{data['others']:.0%} of the machine meanwhile.",
        report.table(["questions", "server", "answers/s", "answers per second of CPU", "p50 us", "p99 us"], rows),
        f"Creates on Docker, {docker['creates']} of each in turns, the policy with 50 rules; beside its worker a sidecar has a "
        f"process that starts it again, {docker['supervisor_mib']:.1f} MiB, most of it shared.",
        report.table(["create on Docker", "p50 ms"], creates),
        report.table(["target", "measured", ""], targets),
    ])


def arguments(parser):
    parser.add_argument("--seconds", type=float, default=2, help="of one run")


if __name__ == "__main__":
    harness.main(harness.Part("egress", "DNS of sandboxes with a policy", __doc__, measure, markdown, rounds=5,
                              tools=("dnsmasq", "dockerd"), arguments=arguments))
