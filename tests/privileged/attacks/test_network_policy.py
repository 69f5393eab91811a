"""Attempts of a sandbox with a network policy to reach more than the policy allows. The program inside is root there."""

import pytest

from attack import attack
from net_world import raw_socket
from packets import ICMP, IPV4, IPV6, UDP, frame, ipv4, ipv6, udp
from policy_walls import CLOSED, GATEWAY, said
from policy_world import ALLOWED, FOREIGN, HOST, METADATA, NAME_SERVER, OTHER, PRIVATE, THIRD, alias, record

pytestmark = [pytest.mark.wall("Network policies", second="private networks, metadata and the host are closed to all sandboxes"),
              pytest.mark.attack(on="native gvisor docker")]


# --- addresses

@pytest.mark.parametrize("port", [22, 80, 443, 8080])
@pytest.mark.parametrize("address", [OTHER, *FOREIGN, NAME_SERVER])
def test_an_address_without_a_name_is_not_reached(inmate, address, port):
    assert said(inmate, "reach(address, port)", address=address, port=port) in CLOSED


def test_the_address_of_an_allowed_name_is_not_reached_before_the_name_was_asked_for(newcomer):
    assert said(newcomer, "reach(address)", address=ALLOWED) in CLOSED
    assert said(newcomer, "reach_name('www.allowed.test')") == HOST
    assert said(newcomer, "reach(address)", address=ALLOWED) == HOST


@pytest.mark.parametrize("port", [443, 4500, 5353, 8053, 80])
def test_a_datagram_to_an_address_without_a_name_is_not_answered(inmate, port):
    for address in (OTHER, FOREIGN[0]):
        assert said(inmate, "reach_by_udp(address, port)", address=address, port=port) in CLOSED


@pytest.mark.parametrize("form", ["1572394767", "0x5db8d70f", "0135.0270.0327.017", "93.12113679", "::ffff:93.184.215.15",
                                  "::ffff:5db8:d70f", "64:ff9b::5db8:d70f", "2606:2800:21f::1", "fe80::1%eth0"])
def test_another_spelling_of_an_address_reaches_nothing(inmate, form):
    assert said(inmate, "reach(form)", form=form) != HOST


CLOSED_RANGES = [PRIVATE, METADATA, HOST, GATEWAY, "127.0.0.1", "0.0.0.0", "224.0.0.251", "255.255.255.255"]


@pytest.mark.parametrize("address", CLOSED_RANGES)
def test_a_closed_range_is_not_reached_whatever_the_policy_says(walls, address):
    prisoner = walls.create({"defaultAction": "allow", "egress": [{"action": "allow", "target": "0.0.0.0/0"},
                                                                  {"action": "allow", "target": address}]})
    assert said(prisoner, "reach(address)", address=address) in CLOSED
    assert said(prisoner, "reach(other)", other=OTHER) == HOST
    prisoner.remove()


def test_another_sandbox_and_its_opened_addresses_are_not_reached(inmate, newcomer):
    assert said(inmate, "reach_name('www.allowed.test')") == HOST
    assert said(newcomer, "reach(address)", address=ALLOWED) in CLOSED
    assert said(newcomer, "reach(address, 44772)", address=inmate.address) in CLOSED


def test_an_allowing_policy_still_closes_what_it_denies(walls):
    prisoner = walls.create({"defaultAction": "allow", "egress": [{"action": "deny", "target": OTHER},
                                                                  {"action": "deny", "target": "evil.test"}]})
    assert said(prisoner, "[reach(a), reach(b), reach(b, 853), resolve('evil.test')]", a=OTHER, b=THIRD) \
        == ["ECONNREFUSED", HOST, "ECONNREFUSED", [3, []]]
    prisoner.remove()


# --- other name servers

@pytest.mark.parametrize("how", ["resolve", "resolve_by_tcp"])
@pytest.mark.parametrize("server", [*FOREIGN, NAME_SERVER, OTHER, METADATA, PRIVATE, GATEWAY, HOST])
def test_another_name_server_does_not_resolve_a_denied_name(inmate, server, how):
    assert said(inmate, f"{how}('evil.test', server)", server=server) == [3, []]


@pytest.mark.parametrize("address", [*FOREIGN, ALLOWED, NAME_SERVER])
def test_names_over_tls_and_quic_are_not_asked_for(inmate, address):
    assert said(inmate, "reach_name('www.allowed.test')") == HOST
    assert said(inmate, "reach(address, 853)", address=address) in CLOSED
    assert said(inmate, "reach_by_udp(address, 853)", address=address) in CLOSED


@pytest.mark.parametrize("port", [443, 5353, 8053, 80])
def test_a_name_server_on_another_port_is_not_asked(inmate, port):
    for address in FOREIGN:
        assert said(inmate, "reach_by_udp(address, port)", address=address, port=port) in CLOSED
        assert said(inmate, "reach(address, port)", address=address, port=port) in CLOSED


@pytest.mark.alike
@pytest.mark.parametrize("name", ["evil.test", "allowed.test", "x.www.allowed.test", "wwwxallowed.test", "wild.test",
                                  "evilwild.test", "www.allowed.test.evil.test", "WWW.EVIL.TEST", "denied.test"])
def test_a_name_that_looks_like_an_allowed_one_is_denied(inmate, name):
    assert said(inmate, "resolve(name)", name=name)[0] == 3


@pytest.mark.alike
@pytest.mark.parametrize("kind", [2, 5, 6, 12, 15, 16, 33, 64, 65, 252, 255, 10, 41, 249, 65535])
def test_no_kind_of_question_gets_a_denied_name_out(walls, inmate, kind):
    got = said(inmate, "resolve('secret.evil.test', kind=kind, timeout=2)", kind=kind)
    assert got == "timeout" or got[1] == []
    assert "secret.evil.test" not in walls.internet.names.asked


# --- answers that lie

@pytest.mark.alike
@pytest.mark.parametrize("address", [METADATA, PRIVATE, "127.0.0.1", HOST, GATEWAY, "0.0.0.0", "224.0.0.1", "100.100.100.200",
                                     "168.63.129.16", "192.168.77.1", "172.17.0.1", "100.64.0.1", "10.95.0.2", "240.0.0.1"])
def test_a_name_that_turns_into_a_closed_address_opens_nothing(walls, inmate, address):
    name = f"x{address.replace('.', '-')}.wild.test"
    walls.internet.names.answers[name] = ([record(name, address, 0)], [])
    got = said(inmate, "[resolve(name), reach(address)]", name=name, address=address)
    assert address not in got[0][1] and got[1] in CLOSED
    assert name in walls.internet.names.asked  # it was asked for, and answered so


@pytest.mark.alike
def test_a_name_whose_second_answer_is_a_closed_address_opens_nothing(walls, newcomer):
    answers = iter([THIRD] + [METADATA] * 100)
    walls.internet.names.answers["rebind.test"] = lambda name: ([record(name, next(answers), 0)], [])
    assert said(newcomer, "resolve('rebind.test')") == [0, [THIRD]]
    got = said(newcomer, "[resolve('rebind.test') for _ in range(3)]")
    assert all(METADATA not in each[1] for each in got)
    assert said(newcomer, "reach(address)", address=METADATA) in CLOSED


@pytest.mark.alike
@pytest.mark.parametrize("answers", [
    ([record("poison.test", THIRD)], [record("www.other.test", OTHER)]),
    ([record("poison.test", THIRD), record("www.other.test", OTHER)], []),
    ([record("poison.test", THIRD), record("evil.test", OTHER)], [record("poison.test", OTHER)]),
    ([alias("other.test", "x.test"), record("x.test", OTHER), record("poison.test", THIRD)], []),
], ids=["additional", "another-owner", "both", "a-chain-of-another-name"])
def test_records_of_other_names_open_nothing(walls, newcomer, answers):
    # A name of its own for each way: answers are cached.
    name = f"poison{len(walls.internet.names.asked)}.wild.test"
    own = [part.replace(b"\x06poison\x04test\0", bytes([len(name.split('.')[0])]) + name.split('.')[0].encode()
                        + b"\x04wild\x04test\0") for part in answers[0]]
    walls.internet.names.answers[name] = (own, answers[1])
    said(newcomer, "resolve(name)", name=name)
    assert said(newcomer, "reach(address)", address=OTHER) in CLOSED


@pytest.mark.alike
def test_an_answer_for_another_question_is_not_believed(walls, newcomer):
    walls.internet.names.answers["poison.test"] = ([record("evil.test", OTHER)], [])
    got = said(newcomer, "resolve('poison.test', timeout=3)")
    assert got == "timeout" or got[1] == []
    assert said(newcomer, "reach(address)", address=OTHER) in CLOSED


# --- messages that are none

@pytest.mark.alike
@pytest.mark.parametrize("message", [
    "b''", "bytes(11)", "bytes(12)", "os.urandom(400)", "bytes([255]) * 512",
    "bytes(2) + bytes([1, 0, 0, 2]) + bytes(6) + wire('a.wild.test') * 2", "question('a.wild.test')[:-3]",
    "bytes(4) + bytes([0, 1]) + bytes(6) + bytes([192, 12]) + bytes(4)",
    "bytes(4) + bytes([0, 1]) + bytes(6) + bytes([63]) + b'a' * 300", "question('www.allowed.test') + bytes(60000)"],
    ids=["empty", "short", "no-question", "noise", "ones", "two-questions", "cut", "loop", "long-label", "huge"])
def test_a_broken_message_harms_nobody(inmate, message):
    said(inmate, f"[attempt(socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto, {message}, ('9.9.9.9', 53)) "
                 "for _ in range(50)] and 1")
    said(inmate, f"[attempt(lambda: socket.create_connection(('9.9.9.9', 53), 5).sendall(bytes([255, 255]) + {message})) "
                 "for _ in range(20)] and 1")
    assert said(inmate, "resolve('www.allowed.test')") == [0, [ALLOWED]]


FLOOD = """
def flood(name_bytes, seconds):
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.connect(('9.9.9.9', 53))
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        name = '.'.join(os.urandom(name_bytes // 2).hex() for _ in range(3)) + '.wild.test'
        attempt(sender.send, question(name))
"""


@pytest.mark.alike
def test_names_under_a_wildcard_carry_less_than_a_kibibyte_a_second(walls, newcomer):
    names = walls.internet.names
    before = len(names.asked)
    from policy_world import INSIDE
    seconds = attack(newcomer, INSIDE + FLOOD + "begin = time.monotonic()\nflood(60, 8)\nreport(time.monotonic() - begin)")
    carried = sum(len(name) - len(".wild.test") for name in set(names.asked[before:]) if name.endswith(".wild.test"))
    assert 0 < carried < 1024 * seconds, f"{carried} bytes in {seconds} s"


@pytest.mark.alike
def test_a_flood_of_questions_does_not_keep_a_neighbour_from_its_names(inmate, newcomer):
    from policy_world import INSIDE
    attack(newcomer, INSIDE + FLOOD + "if os.fork() == 0:\n    os.setsid()\n    null = os.open('/dev/null', os.O_RDWR)\n"
           "    for each in (0, 1, 2):\n        os.dup2(null, each)\n    flood(8, 30)\n    os._exit(0)\nreport(1)")
    assert said(inmate, "[resolve('www.allowed.test', timeout=20) for _ in range(50)]") == [[0, [ALLOWED]]] * 50


# --- the policy itself

def test_a_policy_is_not_changed_from_inside(walls, inmate):
    for address in (inmate.address, GATEWAY, HOST, "127.0.0.1", "0.0.0.0"):
        assert said(inmate, "reach(address, 18080)", address=address) in CLOSED, address
    assert walls.policy(inmate)["policy"]["egress"][0]["target"] == "www.allowed.test"


def test_a_policy_is_not_changed_with_the_token_of_another_sandbox(walls, inmate, newcomer):
    token = walls.server.client.get(f"/v1/sandboxes/{inmate.id}/endpoints/18080",
                                    params={"use_server_proxy": "true"}).json()["headers"]
    assert "OPENSANDBOX-EGRESS-AUTH" in token
    answer = walls.server.client.put(f"/sandboxes/{newcomer.id}/proxy/18080/policy", json={"defaultAction": "allow"},
                                     headers=token)
    assert answer.status_code == 401, answer.text
    assert said(newcomer, "reach(address)", address=OTHER) in CLOSED


@pytest.mark.parametrize("call", ["socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12).sendto(bytes(64), (0, 0))",
                                  "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
                                  "socket.socket(socket.AF_INET, socket.SOCK_RAW, 255)",
                                  "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).setsockopt(1, 36, 1)"],
                         ids=["nftables", "frames", "raw-packets", "mark"])
def test_rules_are_not_changed_from_inside(inmate, call):
    said(inmate, f"str(attempt(lambda: {call}))")
    inmate.run("nft flush ruleset; ip route add default dev lo; ip addr add 10.95.0.9/32 dev eth0")
    assert said(inmate, "reach(address)", address=OTHER) in CLOSED


# --- packets by hand, as if the sandbox had the right to make them

@pytest.mark.attack(on="native")
@pytest.mark.parametrize("kind", ["udp", "icmp", "gre", "sctp", "esp", "ipip", "igmp", "first-fragment", "later-fragment",
                                  "source-route", "spoofed-neighbour", "spoofed-stranger", "question-of-a-neighbour"])
def test_a_packet_by_hand_does_not_leave(walls, inmate, newcomer, kind):
    status = next(each for each in walls.daemon.list() if each["id"] == inmate.id)
    own, neighbour = status["address"], newcomer.address
    sandbox = type("Sandbox", (), {"status": status})
    text = udp(b"by hand", 443)
    packets = {
        "udp": ipv4(own, OTHER, UDP, text), "icmp": ipv4(own, OTHER, ICMP, b"\x08\0\xf7\xff\0\0\0\0"),
        "gre": ipv4(own, OTHER, 47, b"\0\0\x08\0" + ipv4(own, OTHER, UDP, text)), "sctp": ipv4(own, OTHER, 132, bytes(32)),
        "esp": ipv4(own, OTHER, 50, bytes(32)), "ipip": ipv4(own, OTHER, 4, ipv4(own, OTHER, UDP, text)),
        "igmp": ipv4(own, OTHER, 2, bytes(8)), "first-fragment": ipv4(own, OTHER, UDP, text, fragment=0x2000),
        "later-fragment": ipv4(own, OTHER, UDP, text, fragment=0x0002),
        "source-route": ipv4(own, OTHER, UDP, text, options=b"\x83\x07\x04" + bytes(4) + b"\0"),
        "spoofed-neighbour": ipv4(neighbour, OTHER, UDP, text), "spoofed-stranger": ipv4(THIRD, OTHER, UDP, text),
        "question-of-a-neighbour": ipv4(neighbour, OTHER, UDP, udp(bytes(12), 53)),
    }

    def to_other(packet):
        return packet[16:20] == bytes(map(int, OTHER.split(".")))

    with walls.internet.sniffing(to_other) as seen, raw_socket(sandbox) as link:
        for _ in range(20):
            link.send(frame(IPV4, packets[kind], sandbox=sandbox))
        link.send(frame(IPV6, ipv6("fe80::1", "2606:2800:21f::1", UDP, text), sandbox=sandbox))
        # An allowed connection goes the same way afterwards.
        assert said(inmate, "reach_name('www.allowed.test')") == HOST
    assert seen == []
