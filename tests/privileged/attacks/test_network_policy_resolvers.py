"""Resolvers that encrypt questions, and IPv6: servers that really answer, and that a sandbox without a policy uses."""

import itertools
import socket

import pytest

from encrypted_resolvers import ASK, PLACES, EncryptedResolvers, resolve_by_quic
from net_world import raw_socket
from packets import IPV6, UDP, frame, ipv6, udp
from policy_walls import CLOSED, said
from policy_world import ENCRYPTED, HOST, HOST_6, INSIDE, OTHER, OTHER_6, record
from prison import Prisoner

pytestmark = [pytest.mark.wall("Resolvers that encrypt questions, and IPv6", second="addresses without a name are closed"),
              pytest.mark.attack(on="native gvisor docker")]
WAYS = [(how, server, port) for how, places in PLACES.items() for server, port in places]
numbers = itertools.count()


@pytest.fixture(scope="module")
def resolvers(walls, tmp_path_factory):
    made = EncryptedResolvers(walls.internet, tmp_path_factory.mktemp("resolvers"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def free(walls):
    """A sandbox without a policy: what it gets shows that the servers answer."""
    made = Prisoner(walls, walls.server.create()["id"])
    made.is_shared = False
    yield made
    made.remove()


def resolve(prisoner, how, server, port, timeout=20):
    """([response code, addresses] or the name of the error, the name that was asked for, of no other question)."""
    name = f"secret{next(numbers)}.evil.test"
    if how == "quic":
        return resolve_by_quic(prisoner, name, server, port, timeout), name
    return said(prisoner, f"resolve_by_{how}(name, server, port, timeout)", INSIDE + ASK, name=name, server=server, port=port,
                timeout=timeout), name


@pytest.mark.parametrize("how, server, port", WAYS, ids=[f"{how}-{server}-{port}" for how, server, port in WAYS])
def test_a_resolver_that_encrypts_does_not_resolve_a_denied_name(resolvers, free, inmate, how, server, port):
    got, name = resolve(free, how, server, port)
    assert got == [0, [OTHER]] and name in resolvers.names.asked
    # An address of an allowed name is open on all ports but those of resolvers.
    assert said(inmate, "reach_name('www.allowed.test')") == HOST
    # On port 53 our own resolver waits for the rest of what is no question.
    got, name = resolve(inmate, how, server, port, timeout=3)
    assert str(got) in CLOSED and name not in resolvers.names.asked, got


def test_an_address_that_an_allowed_resolver_gave_is_not_reached(walls, resolvers, newcomer):
    """The policy may allow a resolver by its name: what it says opens nothing."""
    walls.internet.names.answers["resolver.wild.test"] = ([record("resolver.wild.test", ENCRYPTED)], [])
    assert said(newcomer, "resolve('resolver.wild.test')") == [0, [ENCRYPTED]]
    for how, server, port in WAYS:
        if port in (443, 8443):
            assert resolve(newcomer, how, server, port)[0] == [0, [OTHER]]
    assert said(newcomer, "[reach(address, port) for port in (80, 443)]", address=OTHER)[0] in CLOSED
    assert said(newcomer, "reach_by_udp(address, 443)", address=OTHER) in CLOSED
    # By TLS and QUIC it is not asked even so.
    for how in ("tls", "quic"):
        assert resolve(newcomer, how, ENCRYPTED, 853)[0] in CLOSED


# --- IPv6

def heard(address, port, text):
    """The answer of the internet to a datagram of the host."""
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as asker:
        asker.settimeout(10)
        asker.sendto(text, (address, port))
        return asker.recv(100).decode()


ASK_6 = """
def send_by_ipv6(address, port, source=None, timeout=0.6):
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sender:
        sender.settimeout(timeout)
        try:
            if source:
                sender.setsockopt(0x29, 15 if source == 'free' else 75, 1)  # IPV6_FREEBIND, IPV6_TRANSPARENT
                sender.bind(('2001:db8:1::99', 0))
            sender.sendto(b'x', (address, port))
            return sender.recv(100).decode()
        except TimeoutError:
            return 'timeout'
        except OSError as error:
            return errno.errorcode.get(error.errno, str(error))
"""


@pytest.mark.parametrize("port", [22, 53, 80, 443, 853])
def test_an_ipv6_address_is_not_reached(walls, inmate, port):
    if port != 53:
        assert heard(OTHER_6, port, b"x") == HOST_6  # by the host it is
    with walls.internet.sniffing(lambda packet: packet[:1] >= b"\x60" and packet[24:40] == socket.inet_pton(
            socket.AF_INET6, OTHER_6)) as seen:
        sources = [None, "free", "other"]
        got = said(inmate, "[reach(address, port), *(send_by_ipv6(address, port, source) for source in sources)]",
                   INSIDE + ASK_6, address=OTHER_6, port=port, sources=sources)
    assert seen == [] and set(got) <= CLOSED | {"ENOPROTOOPT", "EAFNOSUPPORT"}, got


@pytest.mark.attack(on="native")
@pytest.mark.parametrize("source", ["fe80::1", "2001:db8:1::99", HOST_6])
def test_an_ipv6_packet_by_hand_does_not_leave(walls, inmate, source):
    status = next(each for each in walls.daemon.list() if each["id"] == inmate.id)
    sandbox = type("Sandbox", (), {"status": status})
    to = socket.inet_pton(socket.AF_INET6, OTHER_6)
    with walls.internet.sniffing(lambda packet: packet[24:40] == to) as seen, raw_socket(sandbox) as link:
        for _ in range(20):
            link.send(frame(IPV6, ipv6(source, OTHER_6, UDP, udp(b"by hand", 443)), sandbox=sandbox))
        assert said(inmate, "reach_name('www.allowed.test')") == HOST
    assert seen == []
