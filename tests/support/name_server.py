"""A small name server of its own threads, and questions for it or for a proxy."""

import random
import socket
import struct
import threading

A, CNAME, TXT, AAAA, HTTPS = 1, 5, 16, 28, 65


def wire(name):
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".") if label) + b"\0"


def read_name(message, at):
    labels, end = [], None
    while True:
        length = message[at]
        if length >= 0xC0:
            end = end or at + 2
            at = (length & 0x3F) << 8 | message[at + 1]
            continue
        if length == 0:
            return ".".join(labels), end or at + 1
        labels.append(message[at + 1:at + 1 + length].decode("latin-1"))
        at += 1 + length


def data_of(kind, value):
    if kind == A:
        return socket.inet_aton(value)
    if kind == AAAA:
        return socket.inet_pton(socket.AF_INET6, value)
    if kind == CNAME:
        return wire(value)
    return value


class NameServer:
    """`records` maps (name, type) to a list of (owner, type, ttl, value). Unknown names are NXDOMAIN. The sockets are
    made by `make`, maybe in another network namespace."""

    def __init__(self, address, make=lambda kind: socket.socket(socket.AF_INET, kind), port=53):
        self.records, self.asked, self.truncate, self.peers = {}, [], set(), []
        self.datagrams, self.listener = make(socket.SOCK_DGRAM), make(socket.SOCK_STREAM)
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.datagrams.bind((address, port))
        self.listener.bind((address, port))
        self.listener.listen(64)
        for work in (self._serve_datagrams, self._serve_connections):
            threading.Thread(target=work, daemon=True).start()

    def add(self, name, *values, kind=A, ttl=60):
        self.records[name, kind] = [(name, kind, ttl, value) for value in values]

    def close(self):
        for each in (self.datagrams, self.listener):
            each.close()

    def _reply(self, message, by_tcp):
        name, end = read_name(message, 12)
        kind = struct.unpack_from(">H", message, end)[0]
        if name:
            self.asked.append(name.lower())
        flags, records = 0x8180, self.records.get((name.lower(), kind), [])
        if not records and not any(known == name.lower() for known, _ in self.records):
            flags = 0x8183
        if name.lower() in self.truncate and not by_tcp:
            flags, records = 0x8380, []
        out = message[:2] + struct.pack(">5H", flags, 1, len(records), 0, 0) + message[12:end + 4]
        for owner, record_kind, ttl, value in records:
            data = data_of(record_kind, value)
            out += wire(owner) + struct.pack(">HHIH", record_kind, 1, ttl, len(data)) + data
        return out

    def _serve_datagrams(self):
        while True:
            try:
                message, peer = self.datagrams.recvfrom(4096)
                self.peers.append(peer)
                self.datagrams.sendto(self._reply(message, False), peer)
            except OSError:
                return

    def _serve_connections(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection:
                message = connection.recv(4096)
                if len(message) > 2:
                    reply = self._reply(message[2:], True)
                    connection.sendall(struct.pack(">H", len(reply)) + reply)


def question(name, kind=A, number=None):
    number = random.randrange(65536) if number is None else number
    return struct.pack(">6H", number, 0x0100, 1, 0, 0, 0) + wire(name) + struct.pack(">HH", kind, 1)


class Answer:
    def __init__(self, message):
        self.rcode = message[3] & 15
        self.truncated = bool(message[2] & 2)
        count = struct.unpack_from(">H", message, 6)[0]
        _, at = read_name(message, 12)
        at += 4
        self.records = []
        for _ in range(count):
            owner, at = read_name(message, at)
            kind, _, ttl, size = struct.unpack_from(">HHIH", message, at)
            at += 10
            self.records.append((owner, kind, ttl, message[at:at + size]))
            at += size

    @property
    def addresses(self):
        return [socket.inet_ntoa(data) for _, kind, _, data in self.records if kind == A]


def ask(server, name, kind=A, port=53, timeout=10):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        asker.settimeout(timeout)
        asker.connect((server, port))
        asker.send(question(name, kind))
        return Answer(asker.recv(4096))


def ask_by_tcp(server, name, kind=A, port=53, timeout=10):
    with socket.create_connection((server, port), timeout) as asker:
        message = question(name, kind)
        asker.sendall(struct.pack(">H", len(message)) + message)
        data = b""
        while len(data) < 2 or len(data) < 2 + struct.unpack(">H", data[:2])[0]:
            piece = asker.recv(4096)
            assert piece, "closed"
            data += piece
        return Answer(data[2:])
