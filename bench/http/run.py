#!/usr/bin/env python3
"""Our HTTP server and reverse proxy against a raw epoll loop and nginx, side by side on this machine.

Servers run on core 0, the load generator and the upstreams on core 1; the variants take turns within every round and
the median of the rounds counts, so that a noisy moment hits all of them.
"""

import contextlib
import functools
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness  # noqa: E402
import report  # noqa: E402

SERVER_CORE, LOAD_CORE = 0, 1
GIB = 1 << 30

NGINX = """
daemon off; master_process off; pid {dir}/{name}.pid; error_log stderr notice;
events {{ worker_connections 4096; }}
http {{
  access_log off; keepalive_requests 1000000000; keepalive_timeout 600s; sendfile on; tcp_nopush on; tcp_nodelay on;
  client_body_temp_path {dir}/{name}-body; proxy_temp_path {dir}/{name}-proxy; fastcgi_temp_path {dir}/{name}-fcgi;
  uwsgi_temp_path {dir}/{name}-uwsgi; scgi_temp_path {dir}/{name}-scgi;
  {extra}
  server {{ listen 127.0.0.1:{port}; default_type text/plain; {body} }}
}}
"""
PROXY_UPSTREAM = "upstream up {{ server 127.0.0.1:{port}; keepalive 128; keepalive_requests 1000000000; }}"
PROXY_BODY = """location / { proxy_pass http://up; proxy_http_version 1.1; proxy_set_header Connection "";
                             proxy_buffering off; proxy_buffer_size 64k; proxy_buffers 8 64k;
                             proxy_busy_buffers_size 64k; }"""


class Bench:
    def __init__(self, options, directory, stack):
        self.options = options
        self.dir = pathlib.Path(directory)
        self.stack = stack
        self.bin = pathlib.Path(options.build) / "bin"
        self.pids = []
        self.foreign = []  # share of the machine that others took, per measurement

    def start(self, command, core, ready):
        pid = self.stack.enter_context(report.running(command, core=core, ready=ready))
        self.pids.append(pid)
        return pid

    def start_nginx(self, name, core, body, extra=""):
        port = report.free_port()
        config = self.dir / f"{name}.conf"
        config.write_text(NGINX.format(dir=self.dir, name=name, port=port, body=body, extra=extra))
        pid = self.start(["nginx", "-p", self.dir, "-c", config], core, "event method")
        return port, pid

    def start_own(self, program, core, *arguments):
        port = report.free_port()
        return port, self.start([self.bin / program, port, *arguments], core, "listening")

    def requests(self, port, pid):
        return report.wrk(f"http://127.0.0.1:{port}/ping", pid, core=LOAD_CORE, connections=self.options.connections,
                          seconds=self.options.seconds)

    def stream(self, port, pid):
        """One download of 1 GiB: MiB/s, and by how much the process grew at its peak."""
        before = report.memory_kib(pid, "VmRSS")
        report.reset_peak_memory(pid)
        out = subprocess.run(
            ["taskset", "-c", str(LOAD_CORE), "curl", "-sS", "--fail", "-o", "/dev/null", "-w",
             "%{size_download} %{speed_download}", f"http://127.0.0.1:{port}/gib"],
            capture_output=True, text=True, check=True).stdout.split()
        if int(out[0]) != GIB:
            raise RuntimeError(f"the stream was cut after {out[0]} bytes")
        peak = report.memory_kib(pid, "VmHWM")
        return {"mib_s": float(out[1]) / (1 << 20), "growth_mib": (peak - before) / 1024, "rss_mib": before / 1024}

    def rounds(self, variants, measure):
        measures = {name: functools.partial(measure, *target) for name, target in variants.items()}
        return report.rounds(self.options.rounds, measures, self.pids, self.foreign)


def measure(options, work):
    with contextlib.ExitStack() as stack:
        return run(Bench(options, work, stack))


def run(bench):
    print("small responses, keep-alive")
    raw = bench.start_own("bench_raw_epoll", SERVER_CORE)
    own = bench.start_own("bench_http_server", SERVER_CORE)
    nginx = bench.start_nginx("fixed", SERVER_CORE, 'location /ping { return 200 "pong"; }')
    ping = bench.rounds({"raw epoll": raw, "ours": own, "nginx": nginx}, bench.requests)

    print("small responses through a reverse proxy")
    upstream, _ = bench.start_own("bench_raw_epoll", LOAD_CORE)
    own = bench.start_own("bench_http_server", SERVER_CORE, "--proxy", f"127.0.0.1:{upstream}")
    nginx = bench.start_nginx("proxy", SERVER_CORE, PROXY_BODY, PROXY_UPSTREAM.format(port=upstream))
    proxy = bench.rounds({"ours": own, "nginx": nginx}, bench.requests)

    print("1 GiB through a reverse proxy")
    with open(bench.dir / "gib", "wb") as file:
        file.truncate(GIB)  # sparse: read from the page cache as zeros, the same for every server
    files, _ = bench.start_nginx("files", LOAD_CORE, f"root {bench.dir};")
    own = bench.start_own("bench_http_server", SERVER_CORE, "--proxy", f"127.0.0.1:{files}")
    nginx = bench.start_nginx("gibproxy", SERVER_CORE, PROXY_BODY, PROXY_UPSTREAM.format(port=files))
    stream = bench.rounds({"ours": own, "nginx": nginx}, bench.stream)
    return {"ping": ping, "proxy": proxy, "stream": stream, "others": statistics.median(bench.foreign)}


def markdown(data, options):
    ping, proxy, stream = data["ping"], data["proxy"], data["stream"]
    quiet = data["others"] <= report.Foreign.LIMIT

    def rows(group, yardstick):
        return [[name, f"{r['rps']:,.0f}", f"{r['rps'] / group[yardstick]['rps']:.2f}", f"{r['p50']:.2f}",
                 f"{r['p99']:.2f}", f"{r['cpu_us']:.1f}"] for name, r in group.items()]

    targets = [
        ["/ping: at least 0.60 of raw epoll's requests/s", f"{ping['ours']['rps'] / ping['raw epoll']['rps']:.2f}",
         report.verdict(ping["ours"]["rps"] >= 0.6 * ping["raw epoll"]["rps"], quiet)],
        ["/ping: p99 below 2x raw epoll's", f"{ping['ours']['p99'] / ping['raw epoll']['p99']:.2f}",
         report.verdict(ping["ours"]["p99"] < 2 * ping["raw epoll"]["p99"], quiet)],
        ["proxy: at least nginx's requests/s", f"{proxy['ours']['rps'] / proxy['nginx']['rps']:.2f}",
         report.verdict(proxy["ours"]["rps"] >= proxy["nginx"]["rps"], quiet)],
        ["1 GiB: at least nginx's throughput", f"{stream['ours']['mib_s'] / stream['nginx']['mib_s']:.2f}",
         report.verdict(stream["ours"]["mib_s"] >= stream["nginx"]["mib_s"], quiet)],
        ["1 GiB: memory grows by less than 8 MiB", f"{stream['ours']['growth_mib']:.1f} MiB",
         report.verdict(stream["ours"]["growth_mib"] < 8, quiet=True)],
    ]
    return "\n\n".join([
        f"One core for the server, one for the load ({options.connections} keep-alive connections, "
        f"{options.seconds} s per run); median of {options.rounds} interleaved rounds. Other programs took "
        f"{data['others']:.0%} of the machine meanwhile.",
        "`GET /ping` with a 4-byte answer:",
        report.table(["server", "requests/s", "of raw epoll", "p50 ms", "p99 ms", "server CPU us/request"],
                     rows(ping, "raw epoll")),
        "The same through a reverse proxy (upstream: raw epoll on the load's core):",
        report.table(["proxy", "requests/s", "of nginx", "p50 ms", "p99 ms", "server CPU us/request"],
                     rows(proxy, "nginx")),
        "One download of 1 GiB through a reverse proxy (growth: peak resident memory during the download minus "
        "resident memory before it):",
        report.table(["proxy", "MiB/s", "of nginx", "resident MiB", "growth MiB"],
                     [[name, f"{r['mib_s']:,.0f}", f"{r['mib_s'] / stream['nginx']['mib_s']:.2f}",
                       f"{r['rss_mib']:.1f}", f"{r['growth_mib']:.1f}"] for name, r in stream.items()]),
        report.table(["target", "measured", ""], targets),
    ])


def arguments(parser):
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=64)


if __name__ == "__main__":
    harness.main(harness.Part("http", "HTTP stack", __doc__, measure, markdown, root=False, namespace=False,
                              tools=("wrk", "nginx", "curl", "taskset"), arguments=arguments))
