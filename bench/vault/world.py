"""The surroundings of bench/vault: sandboxes, the host between, and the internet, each in a network namespace; web servers with
certificates; and the interceptors that are compared. All of them take connections that nftables redirects to them."""

import contextlib
import pathlib
import socket
import subprocess
import threading

import harness
import report
from egress_process import EgressProcess
from name_server import NameServer
from tls_sites import Authority, in_network_of

PROXY_CORE, LOAD_CORE = 0, 1
INTERCEPT_PORT = 15380
GATEWAY, SANDBOXES = "10.98.0.1", [f"10.98.{1 + number // 250}.{1 + number % 250}" for number in range(100)]
TOKEN, SECRET = "YmVuY2htYXJr", "s3cret-of-the-benchmark"
# A destination for each way; its name is WAY.bench.test.
WAYS = {"ours": "93.184.216.11", "mitmproxy": "93.184.216.12", "nginx": "93.184.216.13", "direct": "93.184.216.14",
        "nginx stream": "93.184.216.15"}
BOUND, UNBOUND = "ours.bench.test", "unbound.bench.test"
NEW = "new.bench.test"  # hosts that are seen once are below it
GIB, LINK_MIB = 1 << 30, 128  # what is sent unshaped, and over the shaped link
SINK = 9523

NGINX = """
daemon off; master_process off; pid {dir}/{name}.pid; error_log stderr notice; {modules}
events {{ worker_connections 8192; }}
{blocks}
"""
HTTP = """
http {{
  access_log off; keepalive_requests 1000000000; keepalive_timeout 600s; sendfile on; tcp_nopush on; tcp_nodelay on;
  client_body_temp_path {dir}/{name}-body; proxy_temp_path {dir}/{name}-proxy; fastcgi_temp_path {dir}/{name}-fcgi;
  uwsgi_temp_path {dir}/{name}-uwsgi; scgi_temp_path {dir}/{name}-scgi;
  ssl_certificate {chain}; ssl_certificate_key {key}; ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache shared:all:1m;
  {extra}
}}
"""
WEB = """server {{ listen {address}:80; listen {address}:443 ssl http2; default_type text/plain; root {dir};
  location /ping {{ return 200 "pong"; }}
  location /up {{ proxy_pass http://127.0.0.1:{sink}; proxy_http_version 1.1; proxy_request_buffering off;
    client_max_body_size 0; }} }}"""
UPSTREAM = """
upstream up {{ server {upstream}:443; keepalive 128; keepalive_requests 1000000000; }}
server {{ listen {gateway}:{port} ssl; location / {{
  proxy_pass https://up; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host nginx.bench.test;
  proxy_set_header Authorization "Bearer {secret}"; proxy_ssl_server_name on; proxy_ssl_name nginx.bench.test;
  proxy_ssl_verify on; proxy_ssl_trusted_certificate {authority}; proxy_ssl_session_reuse on;
  proxy_ssl_protocols TLSv1.2 TLSv1.3; proxy_buffering off; proxy_request_buffering off; client_max_body_size 0; }} }}
"""
STREAM = "stream {{ server {{ listen {gateway}:{port}; proxy_pass {upstream}:80; }} }}"
STREAM_MODULE = "load_module /usr/lib/nginx/modules/ngx_stream_module.so;"
MITMDUMP = harness.ROOT / "build" / "bench" / "mitmproxy" / "bin" / "mitmdump"


def sh(line):
    subprocess.run(line.split(), check=True)


class Namespace:
    """A network namespace that a sleeping process holds, with a link to this one."""

    def __init__(self, link, gateway, addresses, hosts=None):
        script = 'mount --bind "$0" /etc/hosts && exec sleep infinity' if hosts else "exec sleep infinity"
        self.process = subprocess.Popen(["unshare", "--net", "--mount", "sh", "-c", f"echo there; {script}", hosts or "-"],
                                        stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "there\n"
        self.pid = self.process.pid
        sh(f"ip link add {link} type veth peer name eth0 netns {self.pid}")
        sh(f"ip addr add {gateway}/32 dev {link}")
        sh(f"ip link set {link} up")
        self.enter = ["nsenter", f"--net=/proc/{self.pid}/ns/net", "--"]
        commands = ["link set lo up", "link set eth0 up", *(f"addr add {each}/32 dev eth0" for each in addresses),
                    f"route add {gateway} dev eth0", f"route add default via {gateway}"]
        script = "\n".join(commands)
        subprocess.run([*self.enter, "ip", "-batch", "-"], input=script, text=True, check=True)
        for each in addresses:
            sh(f"ip route add {each}/32 dev {link}")

    def close(self):
        self.process.kill()
        self.process.wait()


class Sink:
    """Reads uploads before it answers, behind the web servers; nginx itself would answer at once."""

    def __init__(self, pid):
        with in_network_of(pid):
            listener = socket.create_server(("127.0.0.1", SINK))
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def _accept(self, listener):
        while True:
            threading.Thread(target=self._serve, args=(listener.accept()[0],), daemon=True).start()

    @staticmethod
    def _serve(connection):
        buffer = bytearray(1 << 20)
        with contextlib.suppress(OSError, ValueError):
            with connection, connection.makefile("rb") as lines:
                size = 0
                while (line := lines.readline().strip()):
                    name, _, value = line.decode("latin-1").partition(":")
                    size = int(value) if name.lower() == "content-length" else size
                while size > 0:
                    size -= lines.readinto(memoryview(buffer)[:min(size, len(buffer))]) or size
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")


class World:
    def __init__(self, options, work, stack):
        self.options, self.work, self.stack = options, pathlib.Path(work), stack
        self.program = options.build / "bin" / "opensandbox-egress"
        self.pids, self.foreign = [], []
        self.authority = Authority(self.work)
        own = self.work / "own"
        own.mkdir()
        self.own = Authority(own)  # of the interceptors
        hosts = self.work / "hosts"
        hosts.write_text("127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for name, address in self.names().items()))
        self.sandboxes = self.open(Namespace("sandboxes", GATEWAY, SANDBOXES, hosts))
        self.internet = self.open(Namespace("internet", "192.0.2.1", WAYS.values()))
        pathlib.Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        self.redirects = {}
        for name, size in (("gib", GIB), ("link", LINK_MIB << 20)):
            with open(self.work / name, "wb") as file:
                file.truncate(size)  # sparse: zeros from the page cache
        chain, key = self.authority.files(*(f"{way}.bench.test" for way in ("ours", "mitmproxy", "nginx", "direct", "unbound")),
                                          f"*.{NEW}")
        self.start_nginx("web", LOAD_CORE, HTTP, "\n".join(
            WEB.format(address=address, dir=self.work, sink=SINK) for address in WAYS.values()), chain, key, self.internet.enter)
        self.sink = Sink(self.internet.pid)
        self.resolver = self.open(NameServer(GATEWAY, port=5353))

    @staticmethod
    def names():
        return {f"{way}.bench.test": address for way, address in WAYS.items() if " " not in way}

    def open(self, thing):
        return self.stack.enter_context(contextlib.closing(thing))

    def redirect(self, way, port, to):
        """Connections of sandboxes to the way's address."""
        self.redirects[way, port] = to
        rules = "\n".join(f"iifname sandboxes ip daddr {WAYS[name]} tcp dport {which} redirect to :{target}"
                          for (name, which), target in self.redirects.items())
        table = f"""table ip bench
            delete table ip bench
            table ip bench {{
              chain ways {{
                type nat hook prerouting priority dstnat
                {rules}
              }}
            }}"""
        subprocess.run(["nft", "-f", "-"], input=table, text=True, check=True)

    def start(self, command, core, ready):
        pid = self.stack.enter_context(report.running(command, core=core, ready=ready))
        self.pids.append(pid)
        return pid

    def start_nginx(self, name, core, block, extra, chain="", key="", enter=(), modules=""):
        config = self.work / f"{name}.conf"
        blocks = block.format(dir=self.work, name=name, chain=chain, key=key, extra=extra)
        config.write_text(NGINX.format(dir=self.work, name=name, modules=modules, blocks=blocks))
        return self.start([*enter, "nginx", "-p", self.work, "-c", config], core, "event method")

    def start_ours(self, sandboxes):
        """opensandbox-egress with so many sandboxes, each with a vault that is bound to BOUND and to new hosts."""
        made = EgressProcess(self.program, core=PROXY_CORE, address=GATEWAY, intercept_port=INTERCEPT_PORT)
        for port in (80, 443):
            self.redirect("ours", port, INTERCEPT_PORT)
        # The machine's own authorities, as sandboxd sends them, and the authority of the web servers here.
        trust = pathlib.Path("/etc/ssl/certs/ca-certificates.crt").read_text() + self.authority.file.read_text()
        made.send({"type": "hello", "resolvers": [f"{GATEWAY}:5353"], "maxAddresses": 4096})
        made.send({"type": "interception", "authority": self.own.key.read_text() + self.own.file.read_text(), "trust": trust,
                   "pins": [f"{BOUND}={WAYS['ours']}"]})
        targets = (BOUND, UNBOUND, f"*.{NEW}")
        policy = {"defaultAction": "allow", "egress": [{"action": "allow", "target": target} for target in targets]}
        for number, address in enumerate(SANDBOXES[:sandboxes]):
            made.send({"type": "sandbox", "id": f"s{number}", "address": address, "revision": 1, "policy": policy,
                       "token": TOKEN, "intercept": True})
            made.ask(f"s{number}", TOKEN, "POST", "/credential-vault", {
                "credentials": [{"name": "key", "source": {"type": "inline", "value": SECRET}}],
                "bindings": [{"name": "api", "match": {"hosts": [BOUND, f"*.{NEW}"]},
                              "auth": {"type": "bearer", "credential": "key"}}]})
        return made

    def start_nginx_tls(self):
        chain, key = self.own.files("nginx.bench.test")
        port = report.free_port()
        server = UPSTREAM.format(upstream=WAYS["nginx"], gateway=GATEWAY, port=port, secret=SECRET,
                                 authority=self.authority.file)
        pid = self.start_nginx("tls", PROXY_CORE, HTTP, server, chain, key)
        self.redirect("nginx", 443, port)
        return pid

    def start_nginx_stream(self):
        port = report.free_port()
        block = STREAM.format(gateway=GATEWAY, port=port, upstream=WAYS["nginx stream"])
        pid = self.start_nginx("stream", PROXY_CORE, "{extra}", block, modules=STREAM_MODULE)
        self.redirect("nginx stream", 80, port)
        return pid

    def start_mitmproxy(self):
        port = report.free_port()
        pid = self.start([MITMDUMP, "--mode", "transparent", "--listen-port", port, "--set", f"confdir={self.work}/mitm",
                          "--set", f"ssl_verify_upstream_trusted_ca={self.authority.file}", "--set", "http2=false", "--set",
                          "flow_detail=0", "--set", "termlog_verbosity=error", "--scripts",
                          pathlib.Path(__file__).with_name("mitmproxy_addon.py")], PROXY_CORE, "listening")
        self.redirect("mitmproxy", 443, port)
        return pid

    def wrk(self, way, pid, connections):
        return report.wrk(f"https://{way}.bench.test/ping", pid, core=LOAD_CORE, connections=connections,
                          seconds=self.options.seconds, prefix=[
                              "nsenter", f"--net=/proc/{self.sandboxes.pid}/ns/net", f"--mount=/proc/{self.sandboxes.pid}/ns/mnt",
                              "--"])

    def curl(self, url, way, *words):
        """Bytes and MiB/s of one transfer to the address of the way."""
        host, port = url.split("/")[2], 80
        host, _, given = host.partition(":")
        port = given or (443 if url.startswith("https") else 80)
        out = subprocess.run([*self.sandboxes.enter, "taskset", "-c", str(LOAD_CORE), "curl", "-sS", "--fail", "--http1.1", "-k",
                              "-o", "/dev/null", "--resolve", f"{host}:{port}:{WAYS[way]}", "-w",
                              "%{size_download} %{size_upload} %{time_total} %{time_pretransfer}", *map(str, words), url],
                             capture_output=True, text=True, check=True).stdout.split()
        down, up, total, ready = map(float, out)
        moved = max(down, up)
        return moved, moved / (1 << 20) / (total - ready)
