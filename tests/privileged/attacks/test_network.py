"""Addresses that a sandbox must not reach: the host in every form, other tables' translated ports, metadata services,
private networks, neighbours."""

import contextlib
import ipaddress
import socket
import subprocess
import threading

import pytest

from attack import attack
from docker_engine import EGRESS_IMAGE, ROOT, Engine
from net_world import (ASK, CLOSED, HOST, INTERNET, METADATA, OFFICE, PRIVATE, PUBLIC, RESOLVER, Internet, listening,
                       read_from, sh)
from prison import ENGINES, Prisoner
from server_process import Server

pytestmark = [pytest.mark.wall("Destinations of packets", second="the sandbox's root has no raw sockets, addresses or routes"),
              pytest.mark.usefixtures("internet")]

PORT = Internet.PORT
GATEWAY, EVERYBODY = "the gateway", "the network's broadcast address"


def real_address(sandbox, address):
    """Of what depends on the sandbox's network."""
    if address not in (GATEWAY, EVERYBODY):
        return address
    if sandbox.prison.kind not in ENGINES:
        return {GATEWAY: "10.90.0.1", EVERYBODY: "10.90.255.255"}[address]
    network, = sandbox.prison.daemon.inspect(sandbox.id)["NetworkSettings"]["Networks"].values()
    subnet = ipaddress.ip_interface(f"{network['Gateway']}/{network['IPPrefixLen']}").network
    return network["Gateway"] if address == GATEWAY else str(subnet.broadcast_address)


def ask_all(sandbox, addresses, port=PORT, timeout=0.4):
    """The answers of servers to a program inside, or the errors of the connections, by address."""
    return attack(sandbox, ASK + "report({address: ask(address, port, timeout) for address in addresses})",
                  addresses=addresses, port=port, timeout=timeout)


def assert_closed(sandbox, addresses, port=PORT):
    got = attack(sandbox, ASK + """
answers = {address: ask(address, port, 0.4) for address in addresses}
report([answers, ask(internet, internet_port, 20)])
""", addresses=addresses, port=port, internet=INTERNET, internet_port=PORT)
    assert set(got[0].values()) <= CLOSED, got
    assert got[1] == HOST  # the internet is reached by the same program


@pytest.mark.parametrize("address", METADATA)
def test_a_metadata_service_is_not_reached(prisoner, address):
    assert read_from(address, PORT) == HOST  # the host gets there
    assert_closed(prisoner, [address])


@pytest.mark.parametrize("form", ["2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.16689662", "::ffff:169.254.169.254",
                                  "::ffff:a9fe:a9fe", "169.254.43518"])
def test_a_metadata_service_is_not_reached_by_another_spelling(prisoner, form):
    assert_closed(prisoner, [form])


@pytest.mark.parametrize("address", ["fd00:ec2::254", "fe80::a9fe:a9fe", "fe80::1%eth0", "::1", "ff02::1%eth0",
                                     "64:ff9b::a9fe:a9fe"])
def test_no_metadata_service_is_reached_by_ipv6(prisoner, address):
    got = ask_all(prisoner, [address])
    assert all(answer in CLOSED or "not supported" in answer or "EAI" in answer or "EINVAL" in answer or "-9" in answer
               or "resolution" in answer for answer in got.values()), got


@pytest.mark.parametrize("address", PRIVATE)
def test_a_private_network_is_not_reached(prisoner, address):
    assert read_from(address, PORT) == HOST
    assert_closed(prisoner, [address])


@pytest.mark.parametrize("address", [HOST, OFFICE, GATEWAY])
def test_a_service_of_the_host_is_not_reached(prisoner, address):
    address = real_address(prisoner, address)
    with listening() as everywhere:
        port = everywhere.getsockname()[1]
        socket.create_connection((address, port), 10).close()
        everywhere.accept()[0].close()
        assert_closed(prisoner, [address], port)
        with pytest.raises(TimeoutError):
            everywhere.accept()


@pytest.mark.parametrize("address", ["255.255.255.255", "198.51.100.255", "192.168.77.255", "224.0.0.1", "224.0.0.251",
                                     "239.255.255.250", EVERYBODY, "0.0.0.0", HOST, OFFICE, GATEWAY])
def test_no_datagram_reaches_the_host(prisoner, address):
    address = real_address(prisoner, address)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("0.0.0.0", 0))
        receiver.settimeout(10)
        port = receiver.getsockname()[1]
        for group in ("224.0.0.251", "239.255.255.250"):
            receiver.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(group) + socket.inet_aton(OFFICE))
        attack(prisoner, """
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    for text in (b'one', b'two'):
        attempt(sender.sendto, text, (address, port))
report('sent')
""", address=address, port=port)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"from the host", (HOST, port))
        assert receiver.recv(100) == b"from the host"


@contextlib.contextmanager
def translating(rules):
    """A table of somebody else with these rules for arriving packets. Forwarding is open, as for a port that is published."""
    policy = sh("iptables", "-S", "FORWARD").split()[2]
    sh("iptables", "-P", "FORWARD", "ACCEPT")
    subprocess.run(["nft", "-f", "-"], input=f"""
table ip foreign {{
  chain arriving {{
    type nat hook prerouting priority dstnat; policy accept;
    {rules}
  }}
  chain leaving {{
    type nat hook postrouting priority srcnat; policy accept;
    ip daddr {PUBLIC[0]} masquerade
  }}
}}
""", text=True, check=True)
    try:
        yield
    finally:
        sh("nft", "delete", "table", "ip", "foreign")
        sh("iptables", "-P", "FORWARD", policy)


@pytest.mark.parametrize("address", [HOST, OFFICE, GATEWAY])
@pytest.mark.parametrize("target", [f"{PUBLIC[0]}:{PORT}", f"10.1.2.3:{PORT}", f"169.254.169.254:{PORT}"])
def test_a_port_of_the_host_that_another_table_translates_is_not_reached(prisoner, internet, address, target):
    """The rule of `docker run -p 8123:80`."""
    with translating(f"fib daddr type local tcp dport 8123 dnat to {target}"):
        # Another machine gets through.
        if target.startswith(PUBLIC[0]):
            assert internet.run(f"import socket; print(socket.create_connection(('{HOST}', 8123), 10).recv(100).decode())")
        assert_closed(prisoner, [real_address(prisoner, address)], 8123)


def test_a_port_of_the_host_that_is_redirected_to_its_loopback_is_not_reached(prisoner):
    with listening() as service, translating(f"tcp dport 8124 redirect to :{service.getsockname()[1]}"):
        assert_closed(prisoner, [HOST, OFFICE, real_address(prisoner, GATEWAY)], 8124)
        with pytest.raises(TimeoutError):
            service.accept()


@pytest.mark.attack(on="native")
def test_a_port_that_dockerd_publishes_is_not_reached(prisoner, internet):
    engine = Engine(host_image=False)
    try:
        # The rules that `sandboxd check` asks for beside Docker.
        sh("iptables", "-I", "DOCKER-USER", "-i", "osb-+", "-j", "ACCEPT")
        sh("iptables", "-I", "DOCKER-USER", "-o", "osb-+", "-m", "conntrack", "--ctstate", "RELATED,ESTABLISHED,DNAT", "-j",
           "ACCEPT")
        engine.load_busybox()
        made = engine.ask("POST", "/containers/create", json={
            "Image": "busybox:latest",
            "Cmd": ["busybox", "sh", "-c", "busybox httpd -p 80 && echo listening && busybox sleep 600"],
            "ExposedPorts": {"80/tcp": {}},
            "HostConfig": {"PortBindings": {"80/tcp": [{"HostIp": "0.0.0.0", "HostPort": "8125"}]}}})
        container = f"/containers/{made['Id']}"
        engine.ask("POST", f"{container}/start")
        with engine.client.stream("GET", f"{container}/logs", params={"stdout": 1, "stderr": 1, "follow": 1}) as log:
            assert b"listening" in next(log.iter_raw())
        address = engine.ask("GET", f"{container}/json")["NetworkSettings"]["IPAddress"]
        assert internet.run(f"""
import socket
with socket.create_connection(("{HOST}", 8125), 10) as connection:
    connection.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
    print(connection.recv(100))
""").startswith("b'HTTP/1")
        assert_closed(prisoner, [HOST, OFFICE, "10.90.0.1", "172.17.0.1"], 8125)
        assert_closed(prisoner, [address], 80)
    finally:
        engine.close()
        # It leaves its rules, which drop what is not its own.
        sh("iptables", "-P", "FORWARD", "ACCEPT")
        for table in ("filter", "nat"):
            sh("iptables", "-t", table, "-F")


@pytest.mark.attack(on="native gvisor")
@pytest.mark.parametrize("port", [8000, 44772, 22])
def test_a_neighbour_is_not_reached(prison, prisoner, port):
    victim = prison.create()
    if port != 44772:
        start_server(victim, port)
        assert read_from(victim.address, port)
    assert_closed(prisoner, [victim.address], port)


def start_server(sandbox, port):
    """A server inside, which listens when this returns."""
    sandbox.output(f"""mkfifo /tmp/listens
setsid python3 -c "
import socket
listener = socket.create_server(('0.0.0.0', {port}), backlog=64)
open('/tmp/listens', 'w').close()
while True:
    connection, peer = listener.accept()
    connection.sendall(b'inside')
    connection.close()
" > /dev/null 2>&1 < /dev/null &
cat /tmp/listens""")


def test_a_neighbours_published_port_is_not_reached(make_daemon):
    daemon = make_daemon()
    victim, attacker = daemon.create("victim", ports=[{"port": 8000}]), daemon.create("attacker")
    start_server(victim, 8000)
    port = victim.status["ports"][0]["host_port"]
    assert read_from("127.0.0.1", port) == "inside"
    assert_closed(attacker, [HOST, OFFICE, "10.91.0.1", "127.0.0.1"], port)


def test_no_sandbox_of_another_daemon_is_reached(make_daemon):
    one, other = make_daemon(), make_daemon()
    victim, attacker = one.create("victim"), other.create("attacker")
    start_server(victim, 8000)
    assert read_from(victim.status["address"], 8000) == "inside"
    assert_closed(attacker, [victim.status["address"], "10.91.0.1", "10.92.0.1"], 8000)


def test_blocking_one_network_opens_no_other(make_daemon):
    daemon = make_daemon(settings={"network": {"blocked": ["203.0.113.0/24"]}})
    sandbox = daemon.create("sandbox")
    assert_closed(sandbox, METADATA + PRIVATE + PUBLIC)


def test_opening_private_networks_opens_no_metadata_service(make_daemon):
    daemon = make_daemon(settings={"network": {"allow_private_networks": True, "blocked": ["192.168.1.0/24"]}})
    sandbox = daemon.create("sandbox")
    assert_closed(sandbox, [*METADATA, "192.168.1.1"])
    assert ask_all(sandbox, ["10.1.2.3", "100.64.0.1"], timeout=20) == {"10.1.2.3": HOST, "100.64.0.1": HOST}


def test_opening_one_network_opens_no_other(make_daemon):
    daemon = make_daemon(settings={"network": {"allowed_networks": ["10.1.2.0/24", "100.64.0.0/10"],
                                               "allowed_metadata": ["169.254.170.2/32"]}})
    sandbox = daemon.create("sandbox")
    opened = ["10.1.2.3", "100.64.0.1", "100.127.255.254", "169.254.170.2"]
    assert_closed(sandbox, [each for each in METADATA + PRIVATE if each not in opened])
    assert ask_all(sandbox, opened, timeout=20) == dict.fromkeys(opened, HOST)


def test_a_private_name_server_answers_on_no_other_port(make_daemon):
    """Names are resolved with the host's name server wherever it is; here it is one that sandboxd is told."""
    daemon = make_daemon(settings={"network": {"dns": [RESOLVER]}})
    sandbox = daemon.create("sandbox")
    servers = [line.split()[1] for line in sandbox.output("cat /etc/resolv.conf").splitlines() if line.startswith("nameserver")]
    assert servers
    if servers == [RESOLVER]:  # the machine of the tests has only loopback ones
        assert ask_all(sandbox, [RESOLVER], 53, timeout=20) == {RESOLVER: HOST}
    assert_closed(sandbox, servers + [RESOLVER])
    assert_closed(sandbox, PRIVATE + [each for each in METADATA if each not in servers], 53)


def test_a_name_server_of_the_request_opens_nothing(make_daemon):
    daemon = make_daemon()
    sandbox = daemon.create("sandbox", dns=["10.1.2.3", "169.254.169.254"])
    assert_closed(sandbox, ["10.1.2.3", "169.254.169.254"], 53)


@contextlib.contextmanager
def container_of(prison, **settings):
    """A sandbox of a server with these settings, while the prison's own server rests: the wall is the bridge's, and the
    last server that started has made it."""
    prison.server.stop()
    try:
        server = Server(prison.daemon, settings=settings)
        try:
            made = Prisoner(Opened(prison, server), server.create()["id"])
            yield made
            made.remove()
        finally:
            server.close()
    finally:
        prison.server.start()


class Opened:
    """A prison as far as Prisoner asks for one."""

    def __init__(self, prison, server):
        self.kind, self.daemon, self.server = prison.kind, prison.daemon, server


@pytest.mark.attack(on="docker")
def test_opening_one_network_to_containers_opens_no_other(prison):
    with container_of(prison, docker={"allowed_networks": ["10.1.2.0/24", f"{OFFICE}/32"]}) as container:
        with listening(OFFICE, PORT) as office:
            office.settimeout(60)
            answer = threading.Thread(target=lambda: office.accept()[0].close())
            answer.start()
            assert ask_all(container, [OFFICE], timeout=20) == {OFFICE: ""}
            answer.join()
        assert_closed(container, METADATA + [each for each in PRIVATE if each != "10.1.2.3"] + [HOST])
        assert ask_all(container, ["10.1.2.3"], timeout=20) == {"10.1.2.3": HOST}


@pytest.mark.attack(on="docker")
def test_opening_private_networks_to_containers_opens_neither_the_host_nor_metadata(prison):
    with container_of(prison, docker={"allow_private_networks": True}) as container, listening(port=PORT) as everywhere:
        assert_closed(container, [*METADATA, HOST, OFFICE, real_address(container, GATEWAY)])
        with pytest.raises(TimeoutError):
            everywhere.accept()
        assert ask_all(container, PRIVATE, timeout=20) == dict.fromkeys(PRIVATE, HOST)


@pytest.mark.attack(on="docker")
def test_opening_metadata_services_to_containers_opens_nothing_else(prison):
    with container_of(prison, docker={"allow_metadata": True}) as container:
        assert_closed(container, [*PRIVATE, HOST])
        assert ask_all(container, METADATA, timeout=20) == dict.fromkeys(METADATA, HOST)


@pytest.mark.attack(on="docker")
def test_a_private_name_server_of_containers_answers_on_no_other_port(prison):
    settings = {"image": EGRESS_IMAGE, "dns_upstream": [RESOLVER, f"{PRIVATE[0]}:{PORT}"]}
    with container_of(prison, egress=settings) as container:
        assert ask_all(container, [RESOLVER], 53, timeout=20) == {RESOLVER: HOST}
        assert ask_all(container, [PRIVATE[0]], PORT, timeout=20) == {PRIVATE[0]: HOST}
        assert_closed(container, [RESOLVER])
        assert_closed(container, [each for each in PRIVATE + METADATA if each not in machines_name_servers()], 53)


@pytest.mark.attack(on="docker")
def test_a_table_around_containers_that_was_deleted_comes_back(prison):
    """As `systemctl restart nftables` deletes it; the next create makes it anew."""
    delete_tables_of_servers()
    container = prison.create()
    assert_closed(container, [METADATA[0], PRIVATE[0], HOST])


def delete_tables_of_servers():
    """Of those on engines."""
    found = [line.split()[1:] for line in sh("nft", "list", "tables", "inet").splitlines() if " opensandbox_" in line]
    assert found
    for table in found:
        sh("nft", "delete", "table", *table)


@pytest.mark.attack(on="docker")
@pytest.mark.parametrize("limits, first", [({"max_connections": 200}, 10_000),
                                           ({"max_connections": 0, "total_connections": 200}, 20_000)])
def test_containers_do_not_fill_the_table_of_connections(prison, limits, first):
    """Datagrams to many ports, each an entry."""
    ports = range(first, first + 3000)
    with container_of(prison, docker=limits) as container:
        attack(container, """
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
    for port in range(*ports):
        attempt(sender.sendto, b'x', (address, port))
report('sent')
""", address=INTERNET, ports=[ports.start, ports.stop])
        with open("/proc/net/nf_conntrack") as table:
            entries = [int(line.split("dport=")[1].split()[0]) for line in table if f"src={container.address} " in line]
        assert 0 < sum(port in ports for port in entries) <= 200
        assert read_from(INTERNET, PORT) == HOST  # the host's own
        assert container.is_answering()


def machines_name_servers():
    return [line.split()[1] for line in open("/etc/resolv.conf") if line.startswith("nameserver")]


@pytest.fixture
def operators_table(prison):
    """The table that docs/docker.md gives to root of the engine's host, in the place of the server's."""
    delete_tables_of_servers()
    text = (ROOT / "docs" / "docker.md").read_text()
    table = text[text.index("table inet sandbox_containers {"):].partition("```")[0]
    subprocess.run(["nft", "-f", "-"], input=table, text=True, check=True)
    yield
    sh("nft", "delete", "table", "inet", "sandbox_containers")
    prison.server.stop()
    prison.server.start()


@pytest.mark.attack(on="docker")
def test_a_closed_destination_is_not_reached_where_the_operators_table_is(prisoner, operators_table):
    closed = [*METADATA, *PRIVATE, HOST, OFFICE, real_address(prisoner, GATEWAY)]
    with listening(port=PORT) as everywhere:
        got = ask_all(prisoner, closed)
        assert set(got.values()) <= CLOSED, got
        with pytest.raises(TimeoutError):
            everywhere.accept()
    assert ask_all(prisoner, [PUBLIC[0]], timeout=20) == {PUBLIC[0]: HOST}
