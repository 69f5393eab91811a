"""The surroundings of network attacks. The network namespace of the tests is "the host"; a second one, joined by a cable,
is "the internet", where a server answers on every address."""

import contextlib
import ctypes
import json
import socket
import subprocess
import sys

HOST, INTERNET = "198.51.100.1", "198.51.100.2"
OFFICE = "192.168.77.1"  # the host's address in a network of its own
METADATA = ["169.254.169.254", "169.254.170.2", "169.254.169.253", "169.254.1.1", "100.100.100.200", "168.63.129.16",
            "192.0.0.192"]
PRIVATE = ["10.1.2.3", "172.16.0.1", "172.31.255.254", "192.168.1.1", "100.64.0.1", "100.127.255.254"]
PUBLIC = ["203.0.113.10"]
RESOLVER = "10.53.53.53"
CLOSED = {"timeout", "ECONNREFUSED", "EHOSTUNREACH", "ENETUNREACH", "EACCES", "EPERM", "EADDRNOTAVAIL"}

# Answers every connection and every datagram with the address it came from. The ports are the arguments. Other servers may
# take one of the addresses for themselves.
SERVER = """
import os, selectors, socket, sys
events = selectors.DefaultSelector()
places = [(socket.AF_INET, "0.0.0.0")] + [(socket.AF_INET6, "::")] * os.path.exists("/proc/sys/net/ipv6")
for port in map(int, sys.argv[1:]):
    for family, place in places:
        stream = socket.create_server((place, port), family=family, backlog=512, reuse_port=True)
        events.register(stream, selectors.EVENT_READ, "stream")
        datagrams = socket.socket(family, socket.SOCK_DGRAM)
        if family == socket.AF_INET6:
            datagrams.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        datagrams.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        datagrams.bind((place, port))
        events.register(datagrams, selectors.EVENT_READ, "datagrams")
print("listening", flush=True)
while True:
    for key, _ in events.select():
        if key.data == "stream":
            connection, peer = key.fileobj.accept()
            connection.sendall(peer[0].encode())
            connection.close()
        else:
            text, peer = key.fileobj.recvfrom(65536)
            key.fileobj.sendto(peer[0].encode(), peer)
"""


def sh(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class Internet:
    PORT = 8081

    def __init__(self):
        self.holder = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo made; read line"], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True)
        assert self.holder.stdout.readline() == "made\n"
        self.pid = self.holder.pid
        sh("ip", "link", "add", "cable", "type", "veth", "peer", "name", "eth0", "netns", str(self.pid))
        sh("ip", "addr", "add", f"{HOST}/24", "dev", "cable")
        sh("ip", "link", "set", "cable", "up")
        sh("ip", "link", "add", "office", "type", "veth", "peer", "name", "eth1", "netns", str(self.pid))
        sh("ip", "addr", "add", f"{OFFICE}/24", "dev", "office")
        sh("ip", "link", "set", "office", "up")
        inside = ["nsenter", "-t", str(self.pid), "-n"]
        sh(*inside, "ip", "addr", "add", f"{INTERNET}/24", "dev", "eth0")
        for device in ("lo", "eth0", "eth1"):
            sh(*inside, "ip", "link", "set", device, "up")
        for address in METADATA + PRIVATE + PUBLIC + [RESOLVER]:
            sh(*inside, "ip", "addr", "add", f"{address}/32", "dev", "lo")
        sh("ip", "route", "add", "default", "via", INTERNET)
        self.server = subprocess.Popen([*inside, sys.executable, "-c", SERVER, str(self.PORT), "53"], stdout=subprocess.PIPE,
                                       text=True)
        assert self.server.stdout.readline() == "listening\n"

    def close(self):
        for device in ("cable", "office"):
            sh("ip", "link", "del", device)
        for process in (self.server, self.holder):
            process.kill()
            process.wait()

    def run(self, program):
        """The output of a Python program over there."""
        return sh("nsenter", "-t", str(self.pid), "-n", sys.executable, "-c", program)

    @contextlib.contextmanager
    def datagrams(self, address, port):
        """A socket over there that collects datagrams; made with the host's power."""
        with entered(self.pid):
            receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with receiver:
            receiver.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            roomy(receiver)
            receiver.bind((address, port))
            receiver.settimeout(10)
            yield receiver


def roomy(receiver):
    """A socket that holds a whole flood."""
    receiver.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
    return receiver


@contextlib.contextmanager
def entered(pid):
    """This thread makes sockets in the network namespace of that process."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/thread-self/ns/net") as own, open(f"/proc/{pid}/ns/net") as other:
        assert libc.setns(other.fileno(), 0) == 0
        try:
            yield
        finally:
            assert libc.setns(own.fileno(), 0) == 0


def raw_socket(sandbox):
    """For frames on the sandbox's link, made with the host's power: the sandbox's own root has no such right. An attack
    through it supposes that this wall has fallen."""
    with entered(sandbox.status["pid"]):
        link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    link.bind(("eth0", 0))
    return link


def read_from(address, port, timeout=10):
    with socket.create_connection((address, port), timeout) as connection:
        return connection.recv(100).decode()


@contextlib.contextmanager
def listening(address="0.0.0.0", port=0, family=socket.AF_INET):
    with socket.create_server((address, port), family=family) as listener:
        listener.settimeout(0.2)
        yield listener


ASK = """
def ask(address, port, timeout):
    try:
        family, kind, _, _, where = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
        connection = socket.socket(family, kind)
        connection.settimeout(timeout)
        connection.connect(where)
    except TimeoutError:
        return 'timeout'
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
    try:
        return connection.recv(100).decode()
    except TimeoutError:
        return 'connected'
"""


def links(*options):
    return json.loads(sh("ip", "-j", *options))
