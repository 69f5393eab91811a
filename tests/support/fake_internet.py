"""A small internet for tests: a resolver and web servers on public addresses, in a network namespace of its own behind a
veth. Needs root and a network namespace that may be changed (tests/privileged/in_namespace)."""

import http.server
import json
import os
import pathlib
import socket
import socketserver
import struct
import subprocess
import sys
import threading

RESOLVER = "9.9.9.9"
OTHER_RESOLVER = "9.9.9.10"
GATEWAY = "192.0.2.1"  # this side of it
NAMES = {"allowed.example.com": ["93.184.216.34"], "other.example.com": ["93.184.216.35"],
         "a.wild.example.org": ["93.184.216.36"], "deep.a.wild.example.org": ["93.184.216.37"],
         "private.example.com": ["10.9.9.9"], "metadata.example.com": ["169.254.169.254"]}
ADDRESSES = sorted({address for all in NAMES.values() for address in all} | {RESOLVER, OTHER_RESOLVER})


class FakeInternet:
    """Web servers answer on ports 80, 443 and 8443 of every address with "ADDRESS:PORT", and at /authorization with the
    field of that name, or "none"."""

    def __init__(self):
        self.process = subprocess.Popen(["unshare", "--net", sys.executable, "-B", __file__], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "namespace\n"
        self._ip(f"link add internet type veth peer name eth0 netns {self.process.pid}")
        self._ip(f"addr add {GATEWAY}/24 dev internet")
        self._ip("link set internet up")
        for address in ADDRESSES:
            self._ip(f"route add {address}/32 via 192.0.2.2")
        pathlib.Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "ready\n"

    @staticmethod
    def _ip(line):
        subprocess.run(["ip", *line.split()], check=True)

    def close(self):
        self.process.stdin.close()
        self.process.wait(30)


def answer(question):
    """A reply to a DNS message with one question."""
    end = 12
    labels = []
    while question[end]:
        labels.append(question[end + 1:end + 1 + question[end]].decode().lower())
        end += question[end] + 1
    kind = struct.unpack(">H", question[end + 1:end + 3])[0]
    addresses = NAMES.get(".".join(labels))
    records = addresses if addresses and kind == 1 else []
    flags = 0x8180 if addresses is not None else 0x8183
    out = question[:2] + struct.pack(">HHHHH", flags, 1, len(records), 0, 0) + question[12:end + 5]
    for address in records:
        out += b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 60, 4) + socket.inet_aton(address)
    return out


class Datagrams(socketserver.BaseRequestHandler):
    def handle(self):
        data, to = self.request
        to.sendto(answer(data), self.client_address)


class Streams(socketserver.StreamRequestHandler):
    def handle(self):
        while head := self.rfile.read(2):
            reply = answer(self.rfile.read(struct.unpack(">H", head)[0]))
            self.wfile.write(struct.pack(">H", len(reply)) + reply)


class Web(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = "{}:{}".format(*self.server.server_address)
        if self.path == "/authorization":
            body = self.headers.get("Authorization", "none")
        body = body.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class WebServer(http.server.ThreadingHTTPServer):
    def server_bind(self):
        # HTTPServer would ask a resolver for the name of the address, and wait for it.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address


def serve():
    print("namespace", flush=True)
    sys.stdin.readline()
    for line in ["link set lo up", "addr add 192.0.2.2/24 dev eth0", "link set eth0 up", f"route add default via {GATEWAY}",
                 *(f"addr add {address}/32 dev lo" for address in ADDRESSES)]:
        subprocess.run(["ip", *line.split()], check=True)
    socketserver.ThreadingTCPServer.allow_reuse_address = True
    socketserver.TCPServer.request_queue_size = 128
    servers = []
    for resolver in (RESOLVER, OTHER_RESOLVER):
        servers += [socketserver.ThreadingUDPServer((resolver, 53), Datagrams),
                    socketserver.ThreadingTCPServer((resolver, 53), Streams)]
    for address in ADDRESSES:
        servers += [WebServer((address, port), Web) for port in (80, 443, 8443, 853)]
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    print("ready", flush=True)
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    serve()
