"""The tests' network namespace is the sandbox's: their sockets are those of hostile code. Behind a cable is an internet."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading

import httpx
import pytest

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TESTS / "support"), str(TESTS / "privileged" / "attacks")]

from name_server import NameServer  # noqa: E402
from net_world import SERVER, entered, sh  # noqa: E402

OWN, GATEWAY = "172.30.0.2", "172.30.0.1"
RESOLVER, ROGUE = "5.5.5.53", "9.9.9.9"
WWW, OTHER, THIRD = "93.184.216.34", "93.184.216.35", "93.184.216.36"
METADATA, PRIVATE = "169.254.169.254", "10.1.2.3"
OF_VECTORS = ["10.0.0.1", "1.1.1.1"]  # specs/egress-vectors.json
OWN_6, GATEWAY_6, SIX = "fd00:52::2", "fd00:52::1", "2606:2800:220:1::1"
PORTS = [80, 443, 853, 5353, 8080]
ECHO = 7777  # over UDP
TOKEN = "dG9rZW4tb2YtdGhlLXRlc3Q"


class Internet:
    def __init__(self):
        self.holder = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo made; read line"], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True)
        assert self.holder.stdout.readline() == "made\n"
        pid = str(self.holder.pid)
        inside = ["nsenter", "-t", pid, "-n"]
        sh("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", pid)
        sh("ip", "addr", "add", f"{OWN}/24", "dev", "eth0")
        sh(*inside, "ip", "addr", "add", f"{GATEWAY}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            sh(*inside, "ip", "link", "set", device, "up")
        sh("ip", "link", "set", "eth0", "up")
        for address in (RESOLVER, ROGUE, WWW, OTHER, THIRD, METADATA, PRIVATE, *OF_VECTORS):
            sh(*inside, "ip", "addr", "add", f"{address}/32", "dev", "lo")
        sh("ip", "route", "add", "default", "via", GATEWAY)
        sh("ip", "addr", "add", f"{OWN_6}/64", "dev", "eth0", "nodad")
        for address, device in ((f"{GATEWAY_6}/64", "eth0"), (f"{SIX}/128", "lo")):
            sh(*inside, "ip", "addr", "add", address, "dev", device, "nodad")
        sh("ip", "-6", "route", "add", "default", "via", GATEWAY_6)
        self.server = subprocess.Popen([*inside, sys.executable, "-c", SERVER, *map(str, PORTS)], stdout=subprocess.PIPE,
                                       text=True)
        assert self.server.stdout.readline() == "listening\n"
        self.echo = [self.serve_echo(address) for address in (WWW, OTHER, PRIVATE)]
        self.names = NameServer(RESOLVER, self.socket)
        self.rogue = NameServer(ROGUE, self.socket)
        self.rogue.add("www.example.com", "6.6.6.6")

    def socket(self, kind):
        with entered(self.holder.pid):
            return socket.socket(socket.AF_INET, kind)

    def serve_echo(self, address):
        """Datagrams come back from the address that they were sent to."""
        echo = self.socket(socket.SOCK_DGRAM)
        echo.bind((address, ECHO))

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    data, peer = echo.recvfrom(4096)
                    echo.sendto(data, peer)

        threading.Thread(target=serve, daemon=True).start()
        return echo

    def connect(self, address, port):
        """From outside into the sandbox's network namespace."""
        made = self.socket(socket.SOCK_STREAM)
        made.settimeout(10)
        made.connect((address, port))
        return made

    def close(self):
        self.names.close()
        self.rogue.close()
        for process in (self.server, self.holder):
            process.kill()
            process.wait()


class Sidecar:
    """The program, started as its image does. `policy` is the first one."""

    def __init__(self, tmp, policy=None, wait=True, variables=None, **env):
        self.tmp, self.rules = tmp, tmp / "rules"
        self.rules.mkdir(exist_ok=True)
        self.log = tmp / "log"
        notify = tmp / "notify"
        notify.unlink(missing_ok=True)
        ready = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        ready.bind(str(notify))
        variables = {**(variables or {}), "PATH": os.environ["PATH"], "NOTIFY_SOCKET": str(notify), "OPENSANDBOX_EGRESS_TOKEN": TOKEN,
                     "OPENSANDBOX_EGRESS_MODE": "dns+nft", "OPENSANDBOX_EGRESS_DNS_UPSTREAM": RESOLVER,
                     "OPENSANDBOX_LOG_OUTPUT": str(self.log)}
        if policy is not None:
            variables["OPENSANDBOX_EGRESS_RULES"] = json.dumps(policy)
        variables.update({f"OPENSANDBOX_EGRESS_{name}": value for name, value in env.items()})
        # Its fixed directory is one of the test's, in a mount namespace of its own.
        script = 'mount -t tmpfs none /var && mkdir -p /var/egress/rules && mount --bind "$1" /var/egress/rules && exec "$2"'
        self.process = subprocess.Popen(["unshare", "--mount", "sh", "-c", script, "sh", str(self.rules),
                                         os.environ["EGRESS_BINARY"]], env=variables, stderr=subprocess.PIPE, text=True)
        with ready:
            if not wait:
                return
            ready.settimeout(0.5)
            while True:
                with contextlib.suppress(TimeoutError):
                    assert b"READY=1" in ready.recv(100)
                    break
                assert self.process.poll() is None, self.process.stderr.read()

    def api(self, method, path="/policy", token=TOKEN, **arguments):
        """As the server calls it: from outside."""
        headers = {"OPENSANDBOX-EGRESS-AUTH": token} if token else {}
        return OUTSIDE.request(method, path, headers=headers, **arguments)

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        self.process.wait(30)
        self.process.stderr.close()


class Outside:
    """HTTP from the other side of the cable."""

    def __init__(self):
        self.internet = None

    def request(self, method, path, headers, json=None, content=None):
        import http.client

        connection = http.client.HTTPConnection(OWN, 18080, timeout=30)
        connection.sock = self.internet.connect(OWN, 18080)
        body = __import__("json").dumps(json) if json is not None else content
        connection.request(method, path, body=body, headers=headers)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return httpx.Response(answer.status, headers=answer.getheaders(), content=text)


OUTSIDE = Outside()


@pytest.fixture(scope="session")
def internet():
    made = OUTSIDE.internet = Internet()
    yield made
    made.close()


@pytest.fixture
def sidecar(internet, tmp_path):
    started = []

    def start(policy=None, **arguments):
        started.append(Sidecar(tmp_path, policy, **arguments))
        return started[-1]

    internet.names.records.clear()
    internet.names.asked.clear()
    internet.names.truncate.clear()
    internet.names.peers.clear()
    yield start
    for each in started:
        if each.process.poll() is None:
            each.stop()
    subprocess.run(["nft", "delete", "table", "inet", "opensandbox"], stderr=subprocess.DEVNULL, check=False)
