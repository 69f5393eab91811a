"""Sockets that a network policy may not expect: other protocols, options and owners, and what one sandbox takes from others."""

import json
import socket
import struct
import subprocess

import pytest

from attack import attack
from policy_walls import CLOSED, GATEWAY, NETWORK, said
from policy_world import (A, AAAA, ALLOWED, CNAME, FOREIGN, HOST, HTTPS, INSIDE, METADATA, NAME_SERVER, NS, OTHER, PRIVATE,
                          THIRD, record, wire)

pytestmark = [pytest.mark.wall("Sockets of sandboxes with a network policy", second="no capability over the network"),
              pytest.mark.attack(on="native gvisor docker")]

# Inside: what an unusual socket gets from an address that the policy denies.
SOCKETS = INSIDE + """
def exchange(family, kind, protocol, to, text=b'x', options=(), bind=None):
    try:
        with socket.socket(family, kind, protocol) as one:
            one.settimeout(1)
            for level, name, value in options:
                one.setsockopt(level, name, value)
            if bind:
                one.bind(bind)
            if kind == socket.SOCK_DGRAM or kind == socket.SOCK_RAW:
                one.sendto(text, to)
                return one.recv(100).decode('latin-1')
            one.connect(to)
            return one.recv(100).decode('latin-1') or 'closed'
    except TimeoutError:
        return 'timeout'
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
"""


def outcome(inmate, expression, **values):
    return said(inmate, expression, SOCKETS, **values)


def arrives_nothing(walls, address):
    """Packets to the address that the internet gets from the host."""
    wanted = bytes(map(int, address.split(".")))
    return walls.internet.sniffing(lambda packet: packet[16:20] == wanted)


PROTOCOLS = {
    "ping": "socket.AF_INET, socket.SOCK_DGRAM, 1, (other, 0), b'\\x08\\0\\xf7\\xff\\0\\0\\0\\0'",
    "udp-lite": "socket.AF_INET, socket.SOCK_DGRAM, 136, (other, 443)",
    "sctp": "socket.AF_INET, socket.SOCK_STREAM, 132, (other, 80)",
    "sctp-packets": "socket.AF_INET, socket.SOCK_SEQPACKET, 132, (other, 80)",
    "dccp": "socket.AF_INET, 6, 33, (other, 80)",
    "mptcp": "socket.AF_INET, socket.SOCK_STREAM, 262, (other, 80)",
    "raw-icmp": "socket.AF_INET, socket.SOCK_RAW, 1, (other, 0), b'\\x08\\0\\xf7\\xff\\0\\0\\0\\0'",
    "raw-udp": "socket.AF_INET, socket.SOCK_RAW, 17, (other, 0), b'\\0\\x35\\x01\\xbb\\0\\x09\\0\\0x'",
    "raw-tcp": "socket.AF_INET, socket.SOCK_RAW, 6, (other, 0), bytes(20)",
    "raw-ipip": "socket.AF_INET, socket.SOCK_RAW, 4, (other, 0), bytes(40)",
    "raw-gre": "socket.AF_INET, socket.SOCK_RAW, 47, (other, 0), bytes(40)",
    "raw-esp": "socket.AF_INET, socket.SOCK_RAW, 50, (other, 0), bytes(40)",
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_another_protocol_sends_nothing_out(walls, inmate, protocol):
    with arrives_nothing(walls, OTHER) as seen:
        got = outcome(inmate, f"exchange({PROTOCOLS[protocol]})", other=OTHER)
        assert inmate.reached_since == HOST
    assert not got.startswith(HOST) and seen == [], got


OPTIONS = {
    "mark-1": "(1, 36, 1)",                     # SO_MARK
    "mark-ff": "(1, 36, 255)",
    "priority": "(1, 12, 6)",                   # SO_PRIORITY
    "device": "(1, 25, b'eth0')",               # SO_BINDTODEVICE
    "loose-source-route": "(0, 4, b'\\x83\\x07\\x04' + socket.inet_aton(other) + b'\\0')",  # IP_OPTIONS
    "transparent": "(0, 19, 1)",
    "freebind": "(0, 15, 1)",
    "no-discovery": "(0, 10, 0)",               # IP_MTU_DISCOVER
    "ttl": "(0, 2, 255)",
    "fast-open": "(6, 30, 1)",                  # TCP_FASTOPEN_CONNECT
    "repair": "(6, 19, 1)",                     # TCP_REPAIR
}


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_of_a_socket_opens_no_address(walls, inmate, option):
    with arrives_nothing(walls, OTHER) as seen:
        for kind in ("STREAM", "DGRAM"):
            got = outcome(inmate, f"exchange(socket.AF_INET, socket.SOCK_{kind}, 0, (other, 443), options=[{OPTIONS[option]}])",
                          other=OTHER)
            assert got != HOST, got
        assert inmate.reached_since == HOST
    assert seen == []


@pytest.mark.parametrize("port", [53, 67, 80, 443, 853, 15353, 15354, 18080, 18081, 44772])
def test_a_source_port_of_the_system_opens_no_address(walls, inmate, port):
    with arrives_nothing(walls, OTHER) as seen:
        for kind in ("STREAM", "DGRAM"):
            got = outcome(inmate, f"exchange(socket.AF_INET, socket.SOCK_{kind}, 0, (other, 443), bind=('0.0.0.0', port), "
                                  "options=[(1, 2, 1), (1, 15, 1)])", other=OTHER, port=port)
            assert got != HOST, got
        assert inmate.reached_since == HOST
    assert seen == []


@pytest.mark.parametrize("source", ["a neighbour", GATEWAY, HOST, ALLOWED, NAME_SERVER, "127.0.0.1"])
def test_a_source_address_of_somebody_else_opens_no_address(walls, inmate, newcomer, source):
    source = newcomer.address if source == "a neighbour" else source
    with arrives_nothing(walls, OTHER) as seen:
        for options in ("[]", "[(0, 15, 1)]", "[(0, 19, 1)]"):
            got = outcome(inmate, "exchange(socket.AF_INET, socket.SOCK_DGRAM, 0, (other, 443), bind=(source, 0), "
                                  f"options={options})", other=OTHER, source=source)
            assert got != HOST, got
    assert seen == []


@pytest.mark.parametrize("size", [2000, 9000, 60000])
def test_fragments_of_a_large_datagram_do_not_leave(walls, inmate, size):
    with arrives_nothing(walls, OTHER) as seen:
        got = outcome(inmate, "exchange(socket.AF_INET, socket.SOCK_DGRAM, 0, (other, 443), b'x' * size, [(0, 10, 0)])",
                      other=OTHER, size=size)
        assert got != HOST
        assert inmate.reached_since == HOST
    assert seen == []


@pytest.mark.parametrize("group, port", [("224.0.0.251", 5353), ("239.255.255.250", 1900), ("224.0.0.1", 9),
                                         ("255.255.255.255", 67)])
def test_datagrams_to_all_do_not_leave(walls, inmate, group, port):
    with arrives_nothing(walls, group) as seen:
        got = outcome(inmate, "exchange(socket.AF_INET, socket.SOCK_DGRAM, 0, (group, port), b'x', [(1, 6, 1), (0, 33, 8)])",
                      group=group, port=port)
        assert got != HOST
        assert inmate.reached_since == HOST
    assert seen == []


@pytest.mark.parametrize("user", [1, 33, 101, 1000, 10042, 65534])
def test_another_user_inside_reaches_no_more(walls, inmate, user):
    program = SOCKETS + """
def as_user():
    os.setresuid(user, user, user)
    return [reach(other), reach_by_udp(server, 443), resolve('evil.test', server), reach('127.0.0.1', 18080)]
report(in_child(as_user))
"""
    got = attack(inmate, program, user=user, other=OTHER, server=NAME_SERVER)
    assert got[0] in CLOSED and got[1] in CLOSED and got[2] in ([3, []], "timeout") and got[3] in CLOSED, got


def test_the_port_of_the_resolver_is_no_way_to_other_names(walls, inmate):
    """Ports that listen inside for the enforcement, where there are any."""
    for port in (15353, 15354, 18080, 18081):
        got = outcome(inmate, "[exchange(socket.AF_INET, socket.SOCK_STREAM, 0, ('127.0.0.1', port)), "
                              "exchange(socket.AF_INET, socket.SOCK_DGRAM, 0, ('127.0.0.1', port), question('evil.test'))]",
                      port=port)
        # On Docker the sidecar's resolver listens on a port inside: it says "no such name".
        assert not any(socket.inet_aton(OTHER).decode("latin-1") in each for each in got), got
    assert "evil.test" not in walls.internet.names.asked


# --- answers with more than addresses

def https_record(name, ttl=60):
    """With hints to addresses that nobody asked about, and a key that would hide the name of a connection."""
    parameters = b"".join(struct.pack("!HH", key, len(value)) + value for key, value in
                          ((1, b"\2h3"), (4, socket.inet_aton(OTHER)), (5, b"key"), (6, socket.inet_pton(socket.AF_INET6,
                                                                                                        "2606:2800:21f::1"))))
    data = struct.pack("!H", 1) + b"\0" + parameters
    return wire(name) + struct.pack("!HHIH", HTTPS, 1, ttl, len(data)) + data


@pytest.mark.alike
@pytest.mark.parametrize("kind", [HTTPS, 64])
def test_hints_of_a_service_record_open_nothing(walls, newcomer, kind):
    name = f"hints{kind}.wild.test"
    walls.internet.names.other_kinds[name] = [https_record(name).replace(struct.pack("!HH", HTTPS, 1),
                                                                         struct.pack("!HH", kind, 1), 1)]
    got = attack(newcomer, INSIDE + """
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
    asker.settimeout(10)
    asker.connect(('9.9.9.9', 53))
    asker.send(question(name, kind))
    report(asker.recv(4096).hex())
""", name=name, kind=kind)
    assert name in walls.internet.names.asked
    assert socket.inet_aton(OTHER).hex() not in got and b"key".hex() not in got
    assert said(newcomer, "reach(address)", address=OTHER) in CLOSED


@pytest.mark.alike
@pytest.mark.parametrize("address, meant", [("::ffff:169.254.169.254", METADATA), ("64:ff9b::a9fe:a9fe", METADATA),
                                            ("::ffff:10.1.2.3", PRIVATE), ("64:ff9b::a01:203", PRIVATE), ("::1", "127.0.0.1"),
                                            ("fe80::1", GATEWAY), ("fd00:ec2::254", METADATA)])
def test_an_ipv6_answer_opens_no_closed_address(walls, newcomer, address, meant):
    name = f"six-{address.replace(':', '-').replace('.', '-').strip('-')}.wild.test"
    data = socket.inet_pton(socket.AF_INET6, address)
    walls.internet.names.other_kinds[name] = [wire(name) + struct.pack("!HHIH", AAAA, 1, 60, 16) + data]
    said(newcomer, "resolve(name, kind=28)", name=name)
    assert name in walls.internet.names.asked
    assert said(newcomer, "reach(meant)", meant=meant) in CLOSED
    assert said(newcomer, "reach(address)", address=address) != HOST


# Types of records that can carry bytes to a sandbox, and what stands before a name in their data.
CARRIERS = {"c": (CNAME, b""), "n": (NS, b""), "p": (12, b""), "m": (15, bytes(2)), "t": (16, b""), "s": (33, bytes(6)),
            "a": (A, b"")}


def carrier(name):
    """Some 200 bytes that nobody has been told, by the kind of record that the name begins with: 'x' in them, or addresses."""
    kind, before = CARRIERS[name[0]]
    text = name.split(".")[0].encode()
    if kind == A:
        number = int(name.split(".")[0][1:])
        return [record(name, f"23.{number // 250}.{number % 250}.{each}", 0) for each in range(1, 25)]
    long = ".".join([text.decode(), *["x" * 60] * 3])
    data = bytes([len(text) + 200]) + text + b"x" * 200 if kind == 16 else before + wire(long)
    return [wire(name) + struct.pack("!HHIH", kind, 1, 0, len(data)) + data]


@pytest.mark.alike
def test_answers_of_all_kinds_carry_less_than_a_kibibyte_a_second(walls, newcomer):
    """Names under a wildcard, whose name server answers with as much as fits; many questions are on the way at once."""
    names = walls.internet.names
    names.other_kinds["*.wild.test"] = carrier
    names.answers["*.wild.test"] = lambda name: (carrier(name) if name[0] == "a" else [], [])
    try:
        got = attack(newcomer, INSIDE + """
begin, carried, count = time.monotonic(), dict.fromkeys(kinds, 0), 0
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
    asker.connect(('9.9.9.9', 53))
    while time.monotonic() - begin < 10:
        for kind, number in kinds.items():
            attempt(asker.send, question(f'{kind}{count}.wild.test', number))
        count += 1
        asker.settimeout(0.1)
        try:
            while True:
                answer = asker.recv(4096)
                carried[chr(answer[13])] += 4 * len(addresses(answer)[1]) if answer[13] == ord('a') else answer.count(b'x')
                asker.settimeout(0.01)
        except OSError:
            pass
report([carried, time.monotonic() - begin])
""", kinds={name: kind for name, (kind, _) in CARRIERS.items()})
    finally:
        del names.other_kinds["*.wild.test"], names.answers["*.wild.test"]
    assert 0 < sum(got[0].values()) < 1024 * got[1], got


# --- at the expense of others

@pytest.mark.alike
def test_connections_held_to_the_resolver_do_not_keep_a_neighbour_from_its_names(inmate, newcomer):
    held = attack(newcomer, INSIDE + """
def take():
    global kept
    kept = []
    for _ in range(400):
        got = attempt(lambda: socket.create_connection(('9.9.9.9', 53), 2))
        if isinstance(got, str):
            continue
        kept.append(got)
        attempt(got.sendall, bytes([0, 40]))
    return len(kept)
report(hold(take))
""")
    assert held > 0
    assert said(inmate, "[resolve_by_tcp('www.allowed.test', timeout=20) for _ in range(10)]") == [[0, [ALLOWED]]] * 10
    assert said(inmate, "[resolve('www.allowed.test', timeout=20) for _ in range(10)]") == [[0, [ALLOWED]]] * 10


@pytest.mark.alike
def test_one_sandbox_does_not_take_the_addresses_of_all(walls, inmate, newcomer):
    """Each name has sixty addresses: soon more than a sandbox may open."""
    def many(name):
        number = int(name.split(".")[0][1:])
        return [record(name, f"23.{number // 250}.{number % 250}.{each}") for each in range(1, 61)], []

    # By their names: what is told about names under a wildcard is limited before.
    rules = [{"action": "allow", "target": f"a{number}.wild.test"} for number in range(100)]
    walls.policy(newcomer, "PUT", {"defaultAction": "deny", "egress": rules})
    walls.internet.names.answers["*.wild.test"] = many
    try:
        got = attack(newcomer, INSIDE + """
opened, refused = 0, 0
for number in range(100):
    found = resolve_by_tcp(f'a{number}.wild.test', timeout=20)
    opened += isinstance(found, tuple) and len(found[1])
    refused += not isinstance(found, tuple) or found[0] != 0
report([opened, refused])
""")
    finally:
        del walls.internet.names.answers["*.wild.test"]
    assert got[0] <= 4096 and got[1] > 0, got
    assert said(inmate, "reach_name('www.allowed.test')") == HOST
    # What is open already stays so.
    assert said(inmate, "reach(address)", address=ALLOWED) == HOST


@pytest.mark.alike
def test_names_of_one_sandbox_do_not_push_the_answers_of_another_out_of_the_cache(walls, inmate, newcomer):
    walls.internet.names.answers["n.wild.test"] = ([record("n.wild.test", THIRD, 300)], [])
    assert said(inmate, "resolve('n.wild.test')") == [0, [THIRD]]
    attack(newcomer, INSIDE + """
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
    sender.connect(('9.9.9.9', 53))
    for number in range(20000):
        attempt(sender.send, question(f'{number}.wild.test'))
report(1)
""")
    before = walls.internet.names.asked.count("n.wild.test")
    assert said(inmate, "resolve('n.wild.test', timeout=20)") == [0, [THIRD]]
    assert walls.internet.names.asked.count("n.wild.test") == before


def rules_and_sets():
    """(rules of the kernel's table by chain, {set: (how it finds an element, elements)})."""
    listed = subprocess.run(["nft", "-j", "list", "table", "inet", NETWORK["table"]], capture_output=True, text=True,
                            check=True)
    rules, sets = [], {}
    for each in json.loads(listed.stdout)["nftables"]:
        if rule := each.get("rule"):
            rules.append((rule["chain"], rule["expr"]))
        if found := each.get("set"):
            sets[found["name"]] = found.get("flags", []), len(found.get("elem", []))
    return rules, sets


@pytest.mark.attack(on="native")
def test_policies_of_others_add_no_rule_that_a_packet_passes(walls, inmate):
    """They are elements of hash sets: beside a thousand sandboxes a packet costs what it costs beside one."""
    policy = {"defaultAction": "deny", "egress": [{"action": "allow", "target": f"n{each}.test"} for each in range(25)]
              + [{"action": "allow", "target": f"11.{each}.0.0/24"} for each in range(25)]}
    rules, sets = rules_and_sets()
    others = [walls.create(policy) for _ in range(4)]
    many_rules, many_sets = rules_and_sets()
    assert many_rules == rules
    assert many_sets["policy_allow"][1] == sets["policy_allow"][1] + 4 * 25
    assert all("interval" not in flags for flags, _ in many_sets.values())
    for each in others:
        each.remove()


@pytest.mark.parametrize("address", [*FOREIGN, PRIVATE, METADATA, OTHER])
def test_sockets_made_before_a_policy_change_reach_no_more_than_new_ones(walls, newcomer, address):
    """A datagram socket that was connected while everything was allowed."""
    walls.policy(newcomer, "PUT", {"defaultAction": "allow"})
    newcomer.output("cat > /tmp/old.py <<'END'\nimport socket, os, time\nos.setsid()\n"
                    f"one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\none.settimeout(0.5)\none.connect(('{address}', 443))\n"
                    "open('/tmp/made', 'w').write('1')\n"
                    "while not os.path.exists('/tmp/go'): time.sleep(0.02)\n"
                    "try:\n one.send(b'x'); said = one.recv(100).decode()\nexcept OSError as error: said = str(error)\n"
                    "open('/tmp/said.new', 'w').write(said); os.rename('/tmp/said.new', '/tmp/said')\nEND\n"
                    "python3 /tmp/old.py >/dev/null 2>&1 </dev/null & until [ -e /tmp/made ]; do sleep 0.05; done")
    walls.policy(newcomer, "PUT", {"defaultAction": "deny"})
    got = newcomer.output("touch /tmp/go; until [ -e /tmp/said ]; do sleep 0.05; done; cat /tmp/said")
    assert HOST not in got, got
