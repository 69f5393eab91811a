"""One sandbox takes what the network has for all: entries in the kernel's table of connections, and bandwidth. And the
connections of a sandbox that is gone."""

import errno
import json
import socket
import time

import pytest

from attack import attack
from net_world import ASK, HOST, INTERNET, Internet, entered, raw_socket, read_from, roomy, sh
from packets import IPV4, UDP, frame, ipv4, udp

pytestmark = [pytest.mark.wall("Shared parts of the network", second="the firewall's limits are on the host's side of the link"),
              pytest.mark.usefixtures("internet")]

PORT = Internet.PORT
LIMIT = 100
NETWORK = {"subnet": "10.191.0.0/16", "table": "osb_limits", "interface_prefix": "osbl-", "max_connections": LIMIT}
RATE = 500_000  # bytes per second
NETFILTER, ENDS_OF_CONNECTIONS = 12, 1 << 2  # a netlink family and a group of it


def tracked():
    """Entries in the host's table of connections."""
    with open("/proc/sys/net/netfilter/nf_conntrack_count") as count:
        return int(count.read())


def opens_connections(sandbox, count=5):
    got = attack(sandbox, ASK + "report([ask(address, port, 20) for _ in range(count)])", address=INTERNET, port=PORT,
                 count=count)
    assert got == [HOST] * count


# Each makes far more connections than the limit; bounded in count.
FLOODS = {
    "datagrams to many ports": """
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
    for port in range(10000, 13000):
        attempt(sender.sendto, b'x', (address, port))
""",
    "datagrams from many ports": """
for _ in range(3000):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        attempt(sender.sendto, b'x', (address, 10000))
""",
    "datagrams to many addresses": """
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
    for number in range(3000):
        attempt(sender.sendto, b'x', (f'198.51.{101 + number // 250}.{1 + number % 250}', 10000))
""",
    "first packets of TCP": """
held = []
for number in range(1000):
    opening = socket.socket()
    opening.setblocking(False)
    opening.connect_ex((address, 10000 + number))
    held.append(opening)
""",
    "datagrams with answers": """
for _ in range(3000):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        attempt(sender.sendto, b'x', (address, port))
""",
}


@pytest.mark.parametrize("way", FLOODS)
def test_the_table_of_connections_is_not_filled(daemon, way):
    attacker, neighbour = daemon.create("attacker"), daemon.create("neighbour")
    before = tracked()
    attack(attacker, FLOODS[way] + "report('sent')", address=INTERNET, port=PORT)
    assert tracked() <= before + LIMIT + 5  # the channel of the attack itself
    opens_connections(neighbour)
    assert attacker.output("echo alive") == "alive"


def test_the_table_of_connections_is_not_filled_by_closed_ones(daemon):
    """They stay in the table for two minutes and are no connections any more."""
    attacker, neighbour = daemon.create("attacker"), daemon.create("neighbour")
    before, start = tracked(), time.monotonic()
    made = attack(attacker, ASK + """
made = late = 0
while made < 1000 and late < 100:
    if ask(address, port, 0.3) != 'timeout':
        made += 1
    elif made >= least:
        break
    else:
        late += 1  # a busy machine answers one of the first too late
report(made)
""", address=INTERNET, port=PORT, least=LIMIT // 2)
    seconds = time.monotonic() - start
    assert LIMIT / 2 <= made <= LIMIT + LIMIT / 40 * seconds + 2
    assert tracked() <= before + made + LIMIT
    opens_connections(neighbour)


def test_all_sandboxes_together_get_no_more_than_each_its_own(daemon):
    attackers = [daemon.create(f"attacker-{number}") for number in range(5)]
    neighbour = daemon.create("neighbour")
    before = tracked()
    for attacker in attackers:
        attack(attacker, FLOODS["datagrams to many ports"] + "report('sent')", address=INTERNET)
    assert tracked() <= before + 5 * LIMIT + 10
    opens_connections(neighbour)


def test_all_sandboxes_together_leave_entries_for_the_host(make_daemon):
    daemon = make_daemon(settings={"network": {"max_connections": LIMIT, "total_connections": 2 * LIMIT + LIMIT // 2}})
    attackers = [daemon.create(f"attacker-{number}") for number in range(5)]
    before = tracked()
    for attacker in attackers:
        attack(attacker, FLOODS["datagrams to many ports"] + "report('sent')", address=INTERNET)
    assert tracked() <= before + 2 * LIMIT + LIMIT // 2 + 10
    assert read_from(INTERNET, PORT)  # the host's own
    assert attackers[0].output("echo alive") == "alive"


def test_removed_sandboxes_leave_no_entries(make_daemon):
    """Unanswered datagrams are forgotten by the kernel itself after thirty seconds; answered ones last two minutes."""
    daemon = make_daemon()
    before = tracked()
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETFILTER) as ends:
        ends.bind((0, ENDS_OF_CONNECTIONS))  # before the connections begin: the kernel tells only of those
        ends.settimeout(60)
        sandboxes = [daemon.create(f"attacker-{number}") for number in range(3)]
        for sandbox in sandboxes:
            attack(sandbox, FLOODS["datagrams with answers"] + "report('sent')", address=INTERNET, port=PORT)
        assert tracked() > before + 3000
        daemon.remove_all()
        while tracked() > before + 10:
            try:
                ends.recv(1 << 16)
            except OSError as error:
                assert error.errno == errno.ENOBUFS  # more news than the socket holds


@pytest.mark.parametrize("daemons_end", ["it lives", "it is killed"])
def test_an_entry_of_a_removed_sandbox_leads_to_no_later_one(make_daemon, internet, daemons_end):
    """A server outside keeps sending to a connection of a sandbox that is gone; another sandbox has its address now."""
    daemon = make_daemon(settings={"network": {"subnet": "10.99.0.0/29", "ready_slots": 0}})  # five addresses
    first = daemon.create("first")
    address = first.status["address"]
    with internet.datagrams(INTERNET, 9300) as server:
        attack(first, """
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
    sender.bind(('', 9400))
    sender.sendto(b'open the way', (address, 9300))
report('sent')
""", address=INTERNET)
        _, way_back = server.recvfrom(100)
        assert way_back[0] == HOST
        if daemons_end == "it is killed":
            daemon.kill()
            sh("kill", "-9", str(first.status["pid"]))
            daemon.start()
            daemon.client.delete("/v1/sandboxes/first")
        else:
            first.remove()
        for number in range(12):
            later = daemon.create(f"later-{number}")
            if later.status["address"] == address:
                break
            later.remove()
        assert later.status["address"] == address
        with entered(later.status["pid"]):
            heard = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with heard:
            heard.bind(("", 9400))
            heard.settimeout(10)
            server.sendto(b"for the first", way_back)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as host:
                host.sendto(b"from the host", (address, 9400))
            assert heard.recv(100) == b"from the host"


def most(start, burst):
    return burst + RATE * (time.monotonic() - start)


def collected(receiver):
    """Bytes of the datagrams that wait."""
    receiver.setblocking(False)
    total = 0
    while True:
        try:
            total += len(receiver.recv(65536))
        except BlockingIOError:
            return total


FLOOD = """
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
    sender.setblocking(False)
    for _ in range(20000):
        try:
            sender.sendto(b'x' * 1000, (address, 9500))
        except OSError:
            pass
report('sent')
"""


def test_a_flood_sent_leaves_no_faster_than_its_bandwidth(daemon, internet):
    attacker, neighbour = daemon.create("attacker", limits={"network_send_bps": RATE}), daemon.create("neighbour")
    with internet.datagrams(INTERNET, 9500) as receiver:
        start = time.monotonic()
        attack(attacker, FLOOD, address=INTERNET)
        received = collected(receiver)
        assert 0 < received <= most(start, 128 << 10)
    opens_connections(neighbour)
    opens_connections(attacker)


def test_a_flood_that_goes_round_the_queue_leaves_no_faster_than_its_bandwidth(daemon, internet):
    """With a raw socket that has a way round queues (PACKET_QDISC_BYPASS)."""
    attacker = daemon.create("attacker", limits={"network_send_bps": RATE})
    packet = frame(IPV4, ipv4(attacker.status["address"], INTERNET, UDP, udp(b"x" * 1000, 9500)), None, attacker)
    with internet.datagrams(INTERNET, 9500) as receiver:
        start = time.monotonic()
        with raw_socket(attacker) as link:
            link.setsockopt(263, 20, 1)  # SOL_PACKET
            for _ in range(20000):
                link.send(packet)
        # The firewall's bucket holds a second.
        assert 0 < collected(receiver) <= most(start, RATE + (128 << 10))


def test_a_flood_received_arrives_no_faster_than_its_bandwidth(daemon):
    victim = daemon.create("victim", limits={"network_receive_bps": RATE})
    with entered(victim.status["pid"]):
        receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with roomy(receiver), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        receiver.bind(("", 9500))
        sender.setblocking(False)
        start = time.monotonic()
        for _ in range(20000):
            try:
                sender.sendto(b"x" * 1000, (victim.status["address"], 9500))
            except OSError:
                pass
        assert 0 < collected(receiver) <= most(start, 128 << 10)


def test_a_limit_of_bandwidth_is_not_lifted_from_inside(daemon):
    sandbox = daemon.create("sandbox", limits={"network_send_bps": RATE})

    def limit():
        return [each["options"]["rate"] for each in json.loads(sh("nsenter", "-t", str(sandbox.status["pid"]), "-n", "tc", "-j",
                                                                  "qdisc", "show", "dev", "eth0")) if each["kind"] == "tbf"]

    assert limit() == [RATE]
    for command in ("tc qdisc del dev eth0 root", "tc qdisc replace dev eth0 root pfifo", "ip link set eth0 down",
                    "ip link del eth0", "ip link set eth0 txqueuelen 0"):
        assert sandbox.run(command)[0] != 0, command
    assert limit() == [RATE]


def test_a_limit_of_bandwidth_outlives_sandboxd(make_daemon, internet):
    daemon = make_daemon()
    attacker = daemon.create("attacker", limits={"network_send_bps": RATE})
    daemon.kill()
    daemon.start()
    table = "osb_test_1"
    assert attacker.status["address"] in sh("nft", "list", "set", "inet", table, "send_limits")
    with internet.datagrams(INTERNET, 9500) as receiver:
        start = time.monotonic()
        attack(attacker, FLOOD, address=INTERNET)
        assert 0 < collected(receiver) <= most(start, 128 << 10)


def test_no_request_has_more_bandwidth_than_the_operator_allows(make_daemon):
    daemon = make_daemon(settings={"network": {"max_send_bps": RATE, "default_receive_bps": 2 * RATE}})
    for field, value, word in (("network_send_bps", RATE + 1, "max_send_bps"), ("network_send_bps", 0, "1024"),
                               ("network_receive_bps", 10 ** 18, "10000000000")):
        status, problem = daemon.refused(id="greedy", limits={field: value})
        assert status == 400 and word in problem["message"] and field in problem["message"], problem
    sandbox = daemon.create("ordinary")
    shown = sh("nsenter", "-t", str(sandbox.status["pid"]), "-n", "tc", "-j", "qdisc", "show", "dev", "eth0")
    assert [each["options"]["rate"] for each in json.loads(shown)] == [RATE]
    shown = json.loads(sh("tc", "-j", "qdisc", "show"))
    assert 2 * RATE in [each["options"].get("rate") for each in shown if each["kind"] == "tbf"]
    assert read_from(INTERNET, PORT)


@pytest.mark.attack(on="docker")
def test_a_limit_that_the_engine_lacks_is_refused(prison):
    response = prison.server.client.post("/v1/sandboxes", json={
        "image": {"uri": "host"}, "entrypoint": ["sleep", "1"], "resourceLimits": {"network-send-bps": "1M"}})
    assert response.status_code == 400 and "bandwidth" in response.text


@pytest.mark.attack(on="native gvisor")
def test_a_flood_leaves_no_faster_than_the_bandwidth_of_the_lifecycle_api(prison, internet):
    attacker = prison.create(resourceLimits={"network-send-bps": str(RATE)})
    with internet.datagrams(INTERNET, 9500) as receiver:
        start = time.monotonic()
        attack(attacker, FLOOD, address=INTERNET)
        assert 0 < collected(receiver) <= most(start, 128 << 10)
