"""The surroundings of attacks on network policies: "the internet" in a network namespace of its own, with servers that answer
on every address, a name server that lies where it is told to, and other name servers that only note who asks them."""

import contextlib
import pathlib
import socket
import struct
import subprocess
import sys
import threading

from net_world import SERVER, entered, sh

HOST, INTERNET = "198.51.100.1", "198.51.100.2"
ALLOWED, OTHER, THIRD = "93.184.215.14", "93.184.215.15", "93.184.215.16"
NAME_SERVER = "9.9.9.9"                     # the one that the host uses
FOREIGN = ["8.8.8.8", "1.1.1.1"]            # others
ENCRYPTED = "8.8.4.4"                       # of encrypted_resolvers.py
METADATA, PRIVATE = "169.254.169.254", "10.1.2.3"
HOST_6, INTERNET_6, OTHER_6 = "2001:db8:1::1", "2001:db8:1::2", "2606:2800:21f::1"
PORTS = [22, 80, 443, 853, 5353, 8053, 8080, 4500]
A, NS, CNAME, AAAA, HTTPS = 1, 2, 5, 28, 65


def wire(name):
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".") if label) + b"\0"


def record(owner, address, ttl=60):
    return wire(owner) + struct.pack("!HHIH", A, 1, ttl, 4) + socket.inet_aton(address)


def alias(owner, target, ttl=60):
    data = wire(target)
    return wire(owner) + struct.pack("!HHIH", CNAME, 1, ttl, len(data)) + data


def question_name(message):
    labels, at = [], 12
    while message[at]:
        labels.append(message[at + 1:at + 1 + message[at]].decode("latin-1"))
        at += 1 + message[at]
    return ".".join(labels).lower(), at + 5


class Names:
    """A name server. `answers` maps a name to (answer records, additional records), or to a function that makes them; names
    below `below` have `below`'s answer. `asked` has all questions in their order."""

    def __init__(self, internet, address):
        self.answers, self.asked, self.lock = {}, [], threading.Lock()
        self.other_kinds = {}  # of questions for anything but IPv4 addresses: a name's records, or a function that makes them
        with entered(internet.pid):
            self.datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self.listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.datagrams.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        for each in (self.datagrams, self.listener):
            each.bind((address, 53))
        self.listener.listen(64)
        for work in (self._serve_datagrams, self._serve_connections):
            threading.Thread(target=work, daemon=True).start()

    @staticmethod
    def _find(table, name):
        found = table.get(name) or next((value for key, value in table.items()
                                         if key.startswith("*.") and name.endswith(key[1:])), None)
        return found(name) if callable(found) else found

    def reply(self, message):
        name, end = question_name(message)
        kind = struct.unpack("!H", message[end - 4:end - 2])[0]
        with self.lock:
            self.asked.append(name)
        found = self._find(self.answers if kind == A else self.other_kinds, name)
        answers, additional = (found if kind == A else (found, [])) if found else ([], [])
        code = 0 if found or self._find(self.answers, name) else 3
        head = message[:2] + struct.pack("!HHHHH", 0x8180 | code, 1, len(answers), 0, len(additional))
        return head + message[12:end] + b"".join(answers) + b"".join(additional)

    def _serve_datagrams(self):
        with contextlib.suppress(OSError):
            while True:
                message, peer = self.datagrams.recvfrom(65536)
                with contextlib.suppress(IndexError, struct.error):
                    self.datagrams.sendto(self.reply(message), peer)

    def _serve_connections(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                with connection, contextlib.suppress(OSError, IndexError, struct.error):
                    connection.settimeout(10)
                    size = struct.unpack("!H", connection.recv(2, socket.MSG_WAITALL))[0]
                    answer = self.reply(connection.recv(size, socket.MSG_WAITALL))
                    connection.sendall(struct.pack("!H", len(answer)) + answer)

    def close(self):
        self.datagrams.close()
        self.listener.close()


class PolicyInternet:
    def __init__(self, ports=PORTS):
        self.holder = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo made; read line"], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True)
        assert self.holder.stdout.readline() == "made\n"
        self.pid = self.holder.pid
        inside = ["nsenter", "-t", str(self.pid), "-n"]
        sh("ip", "link", "add", "cable", "type", "veth", "peer", "name", "eth0", "netns", str(self.pid))
        sh("ip", "addr", "add", f"{HOST}/24", "dev", "cable")
        sh("ip", "link", "set", "cable", "up")
        sh(*inside, "ip", "addr", "add", f"{INTERNET}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            sh(*inside, "ip", "link", "set", device, "up")
        for address in (ALLOWED, OTHER, THIRD, NAME_SERVER, *FOREIGN, ENCRYPTED, METADATA, PRIVATE):
            sh(*inside, "ip", "addr", "add", f"{address}/32", "dev", "lo")
        sh("ip", "route", "add", "default", "via", INTERNET)
        self._add_ipv6(inside)
        self.server = subprocess.Popen([*inside, sys.executable, "-c", SERVER, *map(str, ports)], stdout=subprocess.PIPE,
                                       text=True)
        assert self.server.stdout.readline() == "listening\n"
        self.names = Names(self, NAME_SERVER)
        self.foreign = [Names(self, address) for address in FOREIGN]
        for each in self.foreign:
            each.answers["*.test"] = ([record("evil.test", OTHER)], [])

    @staticmethod
    def _add_ipv6(inside):
        """The host has IPv6 too and would pass it on."""
        pathlib.Path("/proc/sys/net/ipv6/conf/all/forwarding").write_text("1")
        sh("ip", "addr", "add", f"{HOST_6}/64", "dev", "cable", "nodad")
        sh("ip", "-6", "route", "add", "default", "via", INTERNET_6)
        sh(*inside, "ip", "addr", "add", f"{INTERNET_6}/64", "dev", "eth0", "nodad")
        sh(*inside, "ip", "addr", "add", f"{OTHER_6}/128", "dev", "lo")
        sh(*inside, "ip", "-6", "route", "add", "default", "via", HOST_6)

    def leaked(self):
        """Questions that came to name servers which no sandbox may ask."""
        return [name for each in self.foreign for name in each.asked]

    @contextlib.contextmanager
    def sniffing(self, wanted):
        """Packets that arrive from the host and of which `wanted(IP packet)` says yes, until the end."""
        with entered(self.pid):
            link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        link.bind(("eth0", 3))
        seen, stop = [], threading.Event()
        link.settimeout(0.2)

        def collect():
            while not stop.is_set():
                with contextlib.suppress(TimeoutError):
                    packet = link.recv(65536)[14:]
                    if wanted(packet):
                        seen.append(packet)

        thread = threading.Thread(target=collect)
        thread.start()
        try:
            yield seen
        finally:
            stop.set()
            thread.join()
            link.close()

    def close(self):
        for each in (self.names, *self.foreign):
            each.close()
        sh("ip", "link", "del", "cable")
        for process in (self.server, self.holder):
            process.kill()
            process.wait()


# Inside a sandbox.
INSIDE = """
import random, select, threading, time

def reach(address, port=80, timeout=5):
    '''The answer of the server, or the name of the error.'''
    try:
        with socket.create_connection((address, port), timeout) as connection:
            return connection.recv(100).decode() or 'closed'
    except TimeoutError:
        return 'timeout'
    except socket.gaierror as error:
        return 'no such name'
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))

def reach_by_udp(address, port, timeout=0.6):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.settimeout(timeout)
        try:
            sender.connect((address, port))
            sender.send(b'x')
            return sender.recv(100).decode()
        except TimeoutError:
            return 'timeout'
        except OSError as error:
            return errno.errorcode.get(error.errno, str(error))

def wire(name):
    return b''.join(bytes([len(label)]) + label.encode() for label in name.split('.') if label) + bytes(1)

def question(name, kind=1):
    return struct.pack('!HHHHHH', random.randrange(65536), 0x100, 1, 0, 0, 0) + wire(name) + struct.pack('!HH', kind, 1)

def addresses(answer):
    '''(response code, the four bytes of each address in the answer section).'''
    count = struct.unpack('!H', answer[6:8])[0]
    at = 12
    while answer[at]:
        at += 1 + answer[at]
    at += 5
    found = []
    for _ in range(count):
        while answer[at] and answer[at] < 192:
            at += 1 + answer[at]
        at += 2 if answer[at] >= 192 else 1
        kind, _, _, size = struct.unpack('!HHIH', answer[at:at + 10])
        if kind == 1:
            found.append(socket.inet_ntoa(answer[at + 10:at + 14]))
        at += 10 + size
    return answer[3] & 15, found

def resolve(name, server='9.9.9.9', kind=1, timeout=5):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        asker.settimeout(timeout)
        try:
            asker.connect((server, 53))
            asker.send(question(name, kind))
            return addresses(asker.recv(65536))
        except TimeoutError:
            return 'timeout'
        except OSError as error:
            return errno.errorcode.get(error.errno, str(error))

def resolve_by_tcp(name, server='9.9.9.9', timeout=5):
    try:
        with socket.create_connection((server, 53), timeout) as connection:
            message = question(name)
            connection.sendall(struct.pack('!H', len(message)) + message)
            size = struct.unpack('!H', connection.recv(2, socket.MSG_WAITALL))[0]
            return addresses(connection.recv(size, socket.MSG_WAITALL))
    except (TimeoutError, struct.error):
        return 'timeout'
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))

def reach_name(name, port=80):
    '''By the address that our own resolver gets.'''
    found = resolve(name)
    return reach(found[1][0], port) if isinstance(found, tuple) and found[1] else found
"""
