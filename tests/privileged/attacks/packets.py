"""Packets by hand, for a raw socket on a sandbox's link."""

import socket
import struct

HOST_MAC = bytes.fromhex("026f73620001")
IPV4, IPV6, ARP = 0x0800, 0x86dd, 0x0806
UDP, TCP, ICMP = 17, 6, 1


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def ipv4(source, destination, protocol, payload, identification=1, fragment=0, options=b""):
    def header(sum_):
        return struct.pack("!BBHHHBBH4s4s", 0x40 | 5 + len(options) // 4, 0, 20 + len(options) + len(payload), identification,
                           fragment, 64, protocol, sum_, socket.inet_aton(source), socket.inet_aton(destination)) + options
    return header(checksum(header(0))) + payload


def udp(text, port, source_port=4444):
    return struct.pack("!HHHH", source_port, port, 8 + len(text), 0) + text


def frame(kind, payload, source_mac=None, sandbox=None):
    mac = source_mac or bytes.fromhex("0253") + socket.inet_aton(sandbox.status["address"])
    return HOST_MAC + mac + struct.pack("!H", kind) + payload


def ipv6(source, destination, protocol, payload):
    return struct.pack("!IHBB16s16s", 6 << 28, len(payload), protocol, 64, socket.inet_pton(socket.AF_INET6, source),
                       socket.inet_pton(socket.AF_INET6, destination)) + payload


def ipv6_checksum(source, destination, protocol, payload):
    pseudo = (socket.inet_pton(socket.AF_INET6, source) + socket.inet_pton(socket.AF_INET6, destination)
              + struct.pack("!II", len(payload), protocol))
    return checksum(pseudo + payload)
