"""Connections of sandboxes that the bench makes itself: many that idle, and single ones to hosts that nobody has seen before."""

import socket
import ssl
import struct
import time

from name_server import Answer, question
from tls_sites import in_network_of

from world import BOUND, GATEWAY, NEW, SANDBOXES, WAYS

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # with empty settings
HEADERS, END_STREAM, END_HEADERS = 1, 1, 4


def trust(world):
    """Both authorities: the one of the web servers, and that of the interceptors."""
    context = ssl.create_default_context(cadata=world.authority.file.read_text() + world.own.file.read_text())
    context.set_alpn_protocols(["http/1.1"])
    return context


def http1_request(host):
    return f"GET /ping HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()


def http2_request(host):
    # :method GET, :scheme https, :path /ping and :authority as literals that no table keeps (RFC 7541, 6.2.2).
    fields = b"\x82\x87\x04\x05/ping\x01" + bytes([len(host)]) + host.encode()
    return PREFACE + len(fields).to_bytes(3, "big") + bytes([HEADERS, END_STREAM | END_HEADERS]) + struct.pack(">I", 1) + fields


def exactly(connection, count):
    data = b""
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            raise ConnectionError("the connection ended")
        data += piece
    return data


def read_http1(connection):
    text = b""
    while not text.endswith(b"\r\n\r\npong"):
        piece = connection.recv(4096)
        if not piece:
            raise ConnectionError(f"the connection ended after {text!r}")
        text += piece
    assert text.startswith(b"HTTP/1.1 200 "), text


def read_http2(connection):
    while True:
        head = exactly(connection, 9)
        exactly(connection, int.from_bytes(head[:3], "big"))
        if head[8] == 1 and head[3] in (0, HEADERS) and head[4] & END_STREAM:
            return


def connect(world, way, source=SANDBOXES[0]):
    with in_network_of(world.sandboxes.pid):
        made = socket.socket()
    made.bind((source, 0))
    made.settimeout(30)
    made.connect((WAYS[way], 443))
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def idle(world, count, sandboxes, http2=False):
    """So many connections to the bound host that have had one answer each."""
    context, made = trust(world), []
    if http2:
        context.set_alpn_protocols(["h2"])
    for number in range(count):
        each = context.wrap_socket(connect(world, "ours", SANDBOXES[number % sandboxes]), server_hostname=BOUND)
        each.sendall(http2_request(BOUND) if http2 else http1_request(BOUND))
        read_http2(each) if http2 else read_http1(each)
        made.append(each)
    return made


def look_up(world, ours, source, name):
    """As a sandbox does before it connects."""
    with in_network_of(world.sandboxes.pid), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        asker.bind((source, 0))
        asker.settimeout(30)
        asker.connect((GATEWAY, ours.port))
        asker.send(question(name))
        assert Answer(asker.recv(4096)).addresses == [WAYS["ours"]]


def first(world, context, way, source, host):
    """Milliseconds from connect to the end of the handshake, and to the first answer."""
    begin = time.perf_counter()
    with context.wrap_socket(connect(world, way, source), server_hostname=host) as connection:
        shaken = time.perf_counter()
        connection.sendall(http1_request(host))
        read_http1(connection)
        return (shaken - begin) * 1000, (time.perf_counter() - begin) * 1000


def new_hosts(world, ours, count, sandboxes):
    """Each host is seen once on either way; the ways take turns, and so do the sandboxes: one may ask for few new names below
    a wildcard in a second."""
    context = trust(world)
    samples = {"ours": [], "direct": []}
    for number in range(count):
        source = SANDBOXES[number % sandboxes]
        for way, seen in samples.items():
            name = f"{way}{number}.{NEW}"
            if way == "ours":
                world.resolver.add(name, WAYS["ours"])
                look_up(world, ours, source, name)
            seen.append(first(world, context, way, source, name))
    return samples
