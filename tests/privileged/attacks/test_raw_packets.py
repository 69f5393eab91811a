"""Packets that a sandbox's root cannot make: another source, another protocol, fragments, redirects. The attacks suppose
that the wall in front has fallen: they put frames on the sandbox's link with the host's power."""

import errno
import socket
import struct

import pytest

from attack import attack
from net_world import HOST, INTERNET, METADATA, OFFICE, PRIVATE, entered, links, raw_socket, sh
from packets import ARP, ICMP, IPV4, IPV6, TCP, UDP, checksum, frame, ipv4, ipv6, ipv6_checksum, udp

pytestmark = [pytest.mark.wall("Packets on the link", second="addresses, neighbours and routes of the host's end are fixed"),
              pytest.mark.usefixtures("internet")]

PORT = 9100
NETWORK = {"subnet": "10.91.0.0/16", "table": "osb_raw", "interface_prefix": "osbr-"}


@pytest.fixture
def sandbox(daemon):
    return daemon.create("sandbox")


def send(sandbox, kind, *payloads, mac=None):
    with raw_socket(sandbox) as link:
        for payload in payloads:
            link.send(frame(kind, payload, mac, sandbox))


def test_an_ordinary_program_makes_no_raw_socket(daemon, sandbox):
    got = attack(sandbox, """
report([attempt(lambda: socket.socket(*kind).close()) for kind in
        [(socket.AF_PACKET, socket.SOCK_RAW, 3), (socket.AF_PACKET, socket.SOCK_DGRAM, 0x0008),
         (socket.AF_INET, socket.SOCK_RAW, 255), (socket.AF_INET, socket.SOCK_RAW, 1), (socket.AF_INET6, socket.SOCK_RAW, 58)]])
""")
    assert set(got) <= {"EPERM", "EACCES", "EAFNOSUPPORT"}, got


@pytest.mark.parametrize("source", ["the neighbour", "10.91.0.1", HOST, OFFICE, "8.8.8.8", "127.0.0.1", "0.0.0.0",
                                    "255.255.255.255", "224.0.0.1"])
def test_a_packet_with_a_forged_source_leads_nowhere(daemon, sandbox, internet, source):
    neighbour = daemon.create("neighbour")
    source = neighbour.status["address"] if source == "the neighbour" else source
    own = sandbox.status["address"]
    with internet.datagrams(INTERNET, PORT) as receiver:
        send(sandbox, IPV4, ipv4(source, INTERNET, UDP, udp(b"forged", PORT)), ipv4(own, INTERNET, UDP, udp(b"own", PORT)))
        assert receiver.recv(100) == b"own"


def test_a_packet_with_a_forged_link_address_gains_no_other_source(daemon, sandbox, internet):
    neighbour = daemon.create("neighbour")
    stolen = neighbour.status["address"]
    mac = bytes.fromhex("0253") + socket.inet_aton(stolen)
    with internet.datagrams(INTERNET, PORT) as receiver:
        send(sandbox, IPV4, ipv4(stolen, INTERNET, UDP, udp(b"forged", PORT)), mac=mac)
        send(sandbox, IPV4, ipv4(sandbox.status["address"], INTERNET, UDP, udp(b"own", PORT)))
        assert receiver.recv(100) == b"own"


@pytest.mark.parametrize("destination", [*METADATA, *PRIVATE])
def test_fragments_reach_no_closed_destination(sandbox, internet, destination):
    """Also the smallest ones, which hold only a part of the UDP header, and the last one first."""
    own = sandbox.status["address"]

    def pieces(to, text, identification):
        whole = udp(text, PORT)
        first, second = whole[:8], whole[8:]
        more = 0x2000
        parts = [ipv4(own, to, UDP, first, identification, more), ipv4(own, to, UDP, second, identification, 1)]
        return parts if identification % 2 else parts[::-1]

    with internet.datagrams("0.0.0.0", PORT) as receiver:
        for identification in (1, 2):
            send(sandbox, IPV4, *pieces(destination, b"in fragments", identification))
        send(sandbox, IPV4, *pieces(INTERNET, b"in permitted fragments", 3))
        text, sender = receiver.recvfrom(100)
        assert (text, sender[0]) == (b"in permitted fragments", HOST)


def test_overlapping_fragments_do_not_change_the_destination(sandbox, internet):
    """The second piece writes over the port of the first."""
    own = sandbox.status["address"]
    with internet.datagrams(INTERNET, PORT) as receiver:
        send(sandbox, IPV4,
             ipv4(own, METADATA[0], UDP, udp(b"12345678", PORT)[:16], 7, 0x2000),
             ipv4(own, METADATA[0], UDP, udp(b"evil", PORT)[:8], 7, 0),
             ipv4(own, INTERNET, UDP, udp(b"own", PORT), 8))
        assert receiver.recv(100) == b"own"


@pytest.mark.parametrize("option", ["loose", "strict"])
def test_a_source_route_leads_to_no_closed_destination(sandbox, internet, option):
    own = sandbox.status["address"]
    kind = {"loose": 131, "strict": 137}[option]
    route = struct.pack("!BBB4sB", kind, 7, 4, socket.inet_aton(METADATA[0]), 0)
    with internet.datagrams("0.0.0.0", PORT) as receiver:
        send(sandbox, IPV4, ipv4(own, INTERNET, UDP, udp(b"by a route", PORT), options=route),
             ipv4(own, HOST, UDP, udp(b"by the host", PORT), options=route), ipv4(own, INTERNET, UDP, udp(b"own", PORT)))
        assert receiver.recv(100) == b"own"


@pytest.mark.parametrize("inner", ["in IPv4", "in GRE"])
def test_a_packet_within_a_packet_is_not_unwrapped_by_the_host(sandbox, internet, inner):
    own = sandbox.status["address"]
    hidden = ipv4(own, METADATA[0], UDP, udp(b"hidden", PORT))
    wrapped = (ipv4(own, HOST, 4, hidden) if inner == "in IPv4" else ipv4(own, HOST, 47, struct.pack("!HH", 0, IPV4) + hidden))
    with internet.datagrams("0.0.0.0", PORT) as receiver:
        send(sandbox, IPV4, wrapped, ipv4(own, INTERNET, UDP, udp(b"own", PORT)))
        assert receiver.recv(100) == b"own"


def test_an_icmp_redirect_moves_no_route(daemon, sandbox, internet):
    """About a connection that the host really has with the sandbox, and about the internet."""
    own = sandbox.status["address"]
    before = sh("ip", "route", "show", "table", "all"), sh("ip", "route", "get", INTERNET), sh("ip", "route", "get", own)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as known:
        known.sendto(b"x", (own, 9))
        port = known.getsockname()[1]
        for about in (ipv4("10.91.0.1", own, UDP, udp(b"x", 9, port)), ipv4(HOST, INTERNET, UDP, udp(b"x", 53, 5555))):
            for code in (0, 1):
                body = struct.pack("!4s", socket.inet_aton(own)) + about[:28]
                head = struct.pack("!BBH", 5, code, checksum(struct.pack("!BBH", 5, code, 0) + body))
                for to in ("10.91.0.1", HOST):
                    send(sandbox, IPV4, ipv4(own, to, ICMP, head + body))
    assert sandbox.output("echo alive") == "alive"
    after = sh("ip", "route", "show", "table", "all"), sh("ip", "route", "get", INTERNET), sh("ip", "route", "get", own)
    assert after == before
    assert "redirected" not in after[1] + after[2]


def test_a_forged_icmp_error_reaches_no_closed_destination(sandbox, internet):
    """Errors about a connection pass; this one is about a connection that the sandbox has elsewhere."""
    own = sandbox.status["address"]
    with internet.datagrams("0.0.0.0", PORT) as receiver:
        send(sandbox, IPV4, ipv4(own, INTERNET, UDP, udp(b"own", PORT)))
        assert receiver.recv(100) == b"own"
    about = ipv4(INTERNET, own, UDP, udp(b"own", 4444, PORT))
    body = struct.pack("!I", 0) + about
    error = struct.pack("!BBH", 3, 3, checksum(struct.pack("!BBH", 3, 3, 0) + body)) + body
    with entered(internet.pid):
        listener = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    with listener:
        listener.settimeout(10)
        send(sandbox, IPV4, *[ipv4(own, to, ICMP, error) for to in (METADATA[0], PRIVATE[0], INTERNET)])
        packet, _ = listener.recvfrom(2000)
        assert socket.inet_ntoa(packet[16:20]) == INTERNET


@pytest.mark.parametrize("destination", ["ff02::1", "::1", "fd00:ec2::254", "fe80::1", "::ffff:10.91.0.1"])
def test_no_ipv6_packet_reaches_the_host(sandbox, destination):
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as receiver:
        try:
            receiver.bind(("::", 0))
        except OSError as error:
            assert error.errno == errno.EAFNOSUPPORT
            return
        receiver.settimeout(10)
        port = receiver.getsockname()[1]
        datagram = udp(b"by IPv6", port)
        sum_ = ipv6_checksum("fe80::2", destination, UDP, datagram)
        datagram = datagram[:6] + struct.pack("!H", sum_) + datagram[8:]
        send(sandbox, IPV6, ipv6("fe80::2", destination, UDP, datagram))
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"from the host", ("::1", port))
        assert receiver.recv(100) == b"from the host"


def test_an_ipv6_router_advertisement_moves_no_route(sandbox):
    prefix = struct.pack("!BBBBIII16s", 3, 4, 64, 0xc0, 86400, 86400, 0, socket.inet_pton(socket.AF_INET6, "fd00:bad::"))
    body = struct.pack("!BBHII", 64, 0, 1800, 0, 0) + prefix
    head = struct.pack("!BBH", 134, 0, 0)
    sum_ = ipv6_checksum("fe80::2", "ff02::1", 58, head + body)
    packet = ipv6("fe80::2", "ff02::1", 58, struct.pack("!BBH", 134, 0, sum_) + body)
    packet = packet[:7] + b"\xff" + packet[8:]  # the hop limit that such packets need
    before = sh("ip", "-6", "route", "show", "table", "all"), sh("ip", "-6", "-o", "addr")
    send(sandbox, IPV6, packet)
    assert sandbox.output("echo alive") == "alive"
    assert (sh("ip", "-6", "route", "show", "table", "all"), sh("ip", "-6", "-o", "addr")) == before


def neighbours():
    return {(each["dst"], each["dev"]): each.get("lladdr") for each in links("neigh", "show")}


@pytest.mark.parametrize("claimed", ["the neighbour", "10.91.0.1", INTERNET, HOST, "its own"])
@pytest.mark.parametrize("operation", [1, 2])
def test_an_arp_claim_changes_nothing_on_the_host(daemon, sandbox, claimed, operation):
    neighbour = daemon.create("neighbour")
    address = {"the neighbour": neighbour.status["address"], "its own": sandbox.status["address"]}.get(claimed, claimed)
    before = neighbours()
    evil = bytes.fromhex("02bad0bad0ba")
    claim = struct.pack("!HHBBH6s4s6s4s", 1, IPV4, 6, 4, operation, evil, socket.inet_aton(address), b"\xff" * 6,
                        socket.inet_aton(address if operation == 2 else "10.91.0.1"))
    send(sandbox, ARP, claim, claim, mac=evil)
    assert sandbox.output("echo alive") == neighbour.output("echo alive") == "alive"
    assert all(mac != "02:ba:d0:ba:d0:ba" for mac in neighbours().values())
    assert {key: mac for key, mac in before.items() if key[1].startswith("osb")}.items() <= neighbours().items()


def test_a_flood_of_broken_packets_harms_no_neighbour(daemon, sandbox, internet):
    neighbour = daemon.create("neighbour")
    own = sandbox.status["address"]
    broken = [b"", b"\x45", b"\x4f" * 20, ipv4(own, INTERNET, UDP, b"")[:19], ipv4(own, INTERNET, TCP, b"\0" * 3),
              ipv4(own, INTERNET, UDP, udp(b"x", PORT), options=b"\x07\xff\x04\x00"), b"\x60" + b"\0" * 10,
              ipv4(own, INTERNET, 255, b"?" * 100), b"\x46" + ipv4(own, INTERNET, UDP, udp(b"x", PORT))[1:]]
    with raw_socket(sandbox) as link:
        for number in range(2000):
            link.send(frame(IPV4 if number % 3 else 0x88b5, broken[number % len(broken)] + b"\0" * 46, None, sandbox))
    with internet.datagrams(INTERNET, PORT) as receiver:
        with raw_socket(neighbour) as link:
            link.send(frame(IPV4, ipv4(neighbour.status["address"], INTERNET, UDP, udp(b"neighbour", PORT)), None, neighbour))
        assert receiver.recv(100) == b"neighbour"
    assert neighbour.output("echo alive") == "alive"
