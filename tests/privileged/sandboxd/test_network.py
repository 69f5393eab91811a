"""Which addresses a sandbox reaches, and from where it is reached. The pytest process has a network namespace of its
own, which is "the host" here; a second one,
joined by a cable, is "the internet"."""

import array
import contextlib
import json
import select
import socket
import subprocess
import sys

import httpx
import pytest

from attack import attack

HOST, INTERNET, METADATA = "198.51.100.1", "198.51.100.2", "169.254.169.254"
GATEWAY = "10.90.0.1"
TOKEN_HEADER = "X-EXECD-ACCESS-TOKEN"

# Answers every connection with the address it came from.
ECHO_SERVER = """
import socket, sys
listener = socket.create_server(("0.0.0.0", int(sys.argv[1])), backlog=64)
print(listener.getsockname()[1], flush=True)
while True:
    connection, peer = listener.accept()
    connection.sendall(peer[0].encode())
    connection.close()
"""


def sh(*command):
    subprocess.run(command, check=True, capture_output=True, text=True)


@pytest.fixture(scope="module")
def internet():
    """Gives the port that a server has on every address over there."""
    server = subprocess.Popen(["unshare", "--net", sys.executable, "-c", """
import os, sys
print("made", flush=True)
sys.stdin.readline()
""" + ECHO_SERVER, "0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdout.readline() == "made\n"
    sh("ip", "link", "add", "cable", "type", "veth", "peer", "name", "eth0", "netns", str(server.pid))
    sh("ip", "addr", "add", f"{HOST}/24", "dev", "cable")
    sh("ip", "link", "set", "cable", "up")
    inside = ["nsenter", "-t", str(server.pid), "-n", "ip"]
    sh(*inside, "addr", "add", f"{INTERNET}/24", "dev", "eth0")
    sh(*inside, "addr", "add", f"{METADATA}/32", "dev", "eth0")
    for device in ("lo", "eth0"):
        sh(*inside, "link", "set", device, "up")
    sh("ip", "route", "add", "default", "via", INTERNET)
    server.stdin.write("\n")
    server.stdin.flush()
    server.port = int(server.stdout.readline())
    yield server
    server.kill()
    server.wait()


@pytest.fixture(scope="module")
def daemon(internet):
    """As everywhere, but made after the cable: sandboxd looks at the host's routes."""
    from sandboxd_process import Sandboxd
    running = Sandboxd()
    yield running
    running.close()


@contextlib.contextmanager
def listening(address, port=0):
    with socket.create_server((address, port)) as listener:
        listener.settimeout(0.2)
        yield listener


def ask(sandbox, address, port, timeout=10):
    """The answer of a server to a program inside, or the error of the connection."""
    return attack(sandbox, """
def connect():
    try:
        connection = socket.create_connection((address, port), timeout)
    except TimeoutError:
        return 'timeout'
    try:
        return connection.recv(100).decode()
    except TimeoutError:
        return 'connected, and nothing said'
report(attempt(connect))
""", address=address, port=port, timeout=timeout)


def serve(sandbox, port):
    """A server inside, on all addresses; there when this returns: it tells its port through a FIFO."""
    program = ECHO_SERVER.replace("flush=True", "flush=True, file=open(sys.argv[2], 'w')")
    assert sandbox.output(f"""mkfifo /tmp/port
setsid python3 -c "{program.replace('"', "'")}" {port} /tmp/port > /dev/null 2>&1 < /dev/null &
cat /tmp/port""") == str(port)


def read_from(address, port, timeout=10):
    with socket.create_connection((address, port), timeout) as connection:
        return connection.recv(100).decode()


def test_the_internet_is_reached_with_the_hosts_address(daemon, internet):
    sandbox = daemon.create("out")
    assert sandbox.status["address"].startswith("10.90.0.")
    assert ask(sandbox, INTERNET, internet.port) == HOST


def test_the_hosts_services_are_not_reached(daemon):
    sandbox = daemon.create("inward")
    with listening("0.0.0.0") as everywhere, listening("127.0.0.1") as loopback:
        port = everywhere.getsockname()[1]
        for address in (GATEWAY, HOST):
            assert ask(sandbox, address, port, 0.4) in ("timeout", "ECONNREFUSED", "EHOSTUNREACH"), address
        #  Its own loopback, without a listener.
        assert ask(sandbox, "127.0.0.1", loopback.getsockname()[1]) == "ECONNREFUSED"
        for listener in (everywhere, loopback):
            with pytest.raises(TimeoutError):
                listener.accept()
        # The listener was there all the time.
        socket.create_connection((GATEWAY, port), 10).close()
        assert everywhere.accept()[1][0] == GATEWAY


def test_no_datagram_reaches_the_host(daemon):
    sandbox = daemon.create("datagram")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("0.0.0.0", 0))
        receiver.settimeout(10)
        port = receiver.getsockname()[1]
        attack(sandbox, """
for address in addresses:
    attempt(socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto, b'from inside', (address, port))
report('sent')
""", addresses=[GATEWAY, HOST, "255.255.255.255"], port=port)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"from the host", (HOST, port))
        assert receiver.recv(100) == b"from the host"


def test_abstract_sockets_of_the_host_are_not_reached(daemon):
    sandbox = daemon.create("abstract")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0osb-host-service")
        listener.listen()
        assert attack(sandbox, """
report(attempt(socket.socket(socket.AF_UNIX).connect, chr(0) + 'osb-host-service'))
""") == "ECONNREFUSED"


def test_other_sandboxes_are_not_reached(daemon):
    server, client = daemon.create("server"), daemon.create("client")
    serve(server, 8000)
    address = server.status["address"]
    assert read_from(address, 8000) == GATEWAY  # the host gets in
    assert ask(client, address, 8000, 0.4) in ("timeout", "ECONNREFUSED", "EHOSTUNREACH")
    assert ask(client, address, 44772, 0.4) in ("timeout", "ECONNREFUSED", "EHOSTUNREACH")


def test_the_metadata_service_is_not_reached(daemon, internet):
    sandbox = daemon.create("metadata")
    assert read_from(METADATA, internet.port) == HOST  # the host gets there by the same route
    assert ask(sandbox, METADATA, internet.port, 0.4) in ("timeout", "ECONNREFUSED", "EHOSTUNREACH")


def test_a_borrowed_address_leads_nowhere(daemon, internet):
    """Done with the host's power in the sandbox's network: a sandbox's own root cannot even try."""
    thief, owner = daemon.create("thief"), daemon.create("owner")
    stolen = owner.status["address"]
    inside = ["nsenter", "-t", str(thief.status["pid"]), "-n"]
    sh(*inside, "ip", "addr", "add", f"{stolen}/32", "dev", "eth0")
    program = f"""
import socket, sys
with socket.socket() as s:
    s.settimeout(float(sys.argv[2]))
    s.bind((sys.argv[1], 0))
    try:
        s.connect(("{INTERNET}", {internet.port}))
        print("connected")
    except OSError:
        print("failed")
"""
    for source, timeout, outcome in ((stolen, "0.5", "failed"), (thief.status["address"], "10", "connected")):
        got = subprocess.run([*inside, sys.executable, "-c", program, source, timeout], capture_output=True, text=True)
        assert got.stdout.strip() == outcome, got


def test_addresses_and_routes_cannot_be_changed_from_inside(daemon):
    sandbox = daemon.create("fixed")
    before = sandbox.output("ip -o addr; ip route")
    for command in ("ip addr add 10.90.0.99/32 dev eth0", "ip link set eth0 down", "ip route del default",
                    "ip link add x type dummy", "ip link set eth0 address 02:00:00:00:00:01",
                    "ip neigh add 10.90.0.1 lladdr 02:00:00:00:00:01 dev eth0", "ip link set eth0 mtu 9000"):
        assert sandbox.run(command)[0] != 0, command
    assert sandbox.output("ip -o addr; ip route") == before
    assert attack(sandbox, """
def borrow(option):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.setsockopt(socket.SOL_IP, option, 1)
        s.bind(('10.90.0.99', 0))
        return s.sendto(b'x', ('198.51.100.2', 9))
report([attempt(borrow, 15), attempt(borrow, 19)])
""") == ["ENETUNREACH", "EPERM"]  # IP_FREEBIND, IP_TRANSPARENT


def test_there_is_no_ipv6(daemon):
    sandbox = daemon.create("six")
    assert sandbox.output("ip -6 -o addr show dev eth0") == ""
    assert sandbox.output("ip -6 route show default") == ""


def test_a_published_port_leads_in(daemon, internet):
    sandbox = daemon.create("published", ports=[{"port": 8000}])
    serve(sandbox, 8000)
    port, = [each["host_port"] for each in sandbox.inspect()["ports"] if each["port"] == 8000]
    for address in ("127.0.0.1", HOST):
        assert read_from(address, port)
    outside = subprocess.run(["nsenter", "-t", str(internet.pid), "-n", sys.executable, "-c", f"""
import socket
print(socket.create_connection(("{HOST}", {port}), 10).recv(100).decode())
"""], capture_output=True, text=True)
    assert outside.stdout.strip() == INTERNET, outside
    # The way back does not open the host's loopback.
    with listening("127.0.0.1") as loopback:
        assert ask(sandbox, GATEWAY, loopback.getsockname()[1], 0.3) in ("timeout", "ECONNREFUSED", "EHOSTUNREACH")
    sandbox.remove()
    with pytest.raises(OSError):
        read_from("127.0.0.1", port)
    with listening("0.0.0.0", port):  # free again
        pass


def test_a_port_of_the_host_is_not_taken_away(daemon):
    with listening("0.0.0.0") as listener:
        port = listener.getsockname()[1]
        status, problem = daemon.refused(id="greedy", ports=[{"port": 80, "host_port": port}])
        assert status == 409 and str(port) in problem["message"]
    assert daemon.list() == []
    first = daemon.create("first", ports=[{"port": 80, "host_port": port}])
    assert first.status["ports"] == [{"port": 80, "host_port": port, "protocol": "tcp"}]
    status, problem = daemon.refused(id="second", ports=[{"port": 80, "host_port": port}])
    assert status == 409 and str(port) in problem["message"]


def ask_for_socket(daemon, id, port):
    control = socket.socket(socket.AF_UNIX)
    control.settimeout(20)
    control.connect(str(daemon.run / "sandboxd.sock"))
    control.sendall(f"POST /v1/sandboxes/{id}/connect/{port} HTTP/1.1\r\nHost: sandboxd\r\nContent-Length: 0\r\n"
                    "Connection: Upgrade\r\nUpgrade: opensandbox-socket\r\n\r\n".encode())
    return control


def connect_through(daemon, id, port):
    """The socket that sandboxd hands out, or (status, problem)."""
    with ask_for_socket(daemon, id, port) as control:
        head, descriptors = b"", array.array("i")
        while True:
            data, ancillary, _, _ = control.recvmsg(65536, socket.CMSG_SPACE(4))
            for level, kind, content in ancillary:
                assert (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS)
                descriptors.frombytes(content)
            head += data
            if descriptors:
                assert head.startswith(b"HTTP/1.1 101 ")
                connection = socket.socket(fileno=descriptors[0])
                connection.settimeout(10)
                return connection
            if not data or (b"\r\n\r\n" in head and not head.startswith(b"HTTP/1.1 101 ")):
                return int(head.split()[1]), json.loads(head.split(b"\r\n\r\n", 1)[1] or b"{}")


#  Listens and accepts nothing: its queue is full, so that the kernel drops what else comes.
FULL = """
import socket, time
listener = socket.socket()
listener.bind(('127.0.0.1', 8000))
listener.listen(0)
queued = []
while True:
    queued.append(socket.socket())
    queued[-1].settimeout(0.5)
    try: queued[-1].connect(('127.0.0.1', 8000))
    except TimeoutError: break
open('/tmp/full', 'w').close()
time.sleep(1000000)
"""


def test_a_port_that_drops_connections_holds_up_nothing_else(daemon):
    """More such connects than sandboxd has threads: other sandboxes are made and removed meanwhile."""
    sandbox = daemon.create("full")
    sandbox.output(f"cat > /root/full.py <<'END'\n{FULL}\nEND\nnohup python3 /root/full.py >/tmp/log 2>&1 &\n"
                   "until [ -e /tmp/full ]; do sleep 0.05; done")
    with contextlib.ExitStack() as stack:
        waiting = [stack.enter_context(ask_for_socket(daemon, "full", 8000)) for _ in range(32)]
        daemon.create("beside").remove()
        assert select.select(waiting, [], [], 0)[0] == [], "a connect was over before a create that needs no time"
        for control in waiting:
            answer = control.recv(65536)
            assert b" 503 " in answer or b" 504 " in answer, answer


def test_without_a_network_there_is_only_loopback(daemon):
    sandbox = daemon.create("alone", network="none")
    assert sandbox.status["address"] == ""
    assert sandbox.output("ls /sys/class/net") == "lo"
    assert ask(sandbox, INTERNET, 80) == "ENETUNREACH"
    assert ask(sandbox, GATEWAY, 80) == "ENETUNREACH"
    serve(sandbox, 8000)
    with connect_through(daemon, "alone", 8000) as connection:
        assert connection.recv(100) == b"127.0.0.1"
    with connect_through(daemon, "alone", 44772) as connection:
        connection.sendall(f"GET /ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{TOKEN_HEADER}: "
                           f"{sandbox.status['execd_token']}\r\n\r\n".encode())
        assert b" 200 " in connection.makefile("rb").readline()
    status, problem = connect_through(daemon, "alone", 8001)
    assert status == 503 and "8001" in problem["message"]
    status, problem = connect_through(daemon, "nobody", 8001)
    assert status == 404 and "nobody" in problem["message"]


def test_sockets_are_handed_out_in_every_mode(daemon):
    sandbox = daemon.create("routed")
    serve(sandbox, 8000)
    with connect_through(daemon, "routed", 8000) as connection:
        assert connection.recv(100) == b"127.0.0.1"


def test_the_hosts_network_needs_the_hosts_permission(daemon):
    status, problem = daemon.refused(id="host-1", network="host")
    assert status == 403 and "allow_host_network" in problem["message"]
    assert not (daemon.state / "sandboxes" / "host-1").exists()


def test_the_hosts_network_where_it_is_allowed(make_daemon, internet):
    daemon = make_daemon(settings={"sandbox": {"allow_host_network": True},
                                   "network": {"subnet": "10.91.0.0/24", "table": "osb-host-test",
                                               "interface_prefix": "osbh-"}})
    sandbox = daemon.create("host-2", network="host")
    assert "cable" in sandbox.output("ls /sys/class/net").split()
    with listening("127.0.0.1") as listener:
        listener.settimeout(5)
        assert ask(sandbox, "127.0.0.1", listener.getsockname()[1], 0.3) == "connected, and nothing said"
        assert listener.accept()[1][0] == "127.0.0.1"
    # It sees the host's network and does not command it; execd's port is not open to all of the host.
    for command in ("ip link set cable down", "ip addr add 10.1.2.3/32 dev lo", "ip route del default"):
        assert sandbox.run(command)[0] != 0, command
    with pytest.raises(ConnectionRefusedError):
        read_from("127.0.0.1", 44772)
    serve(sandbox, 8123)
    with connect_through(daemon, "host-2", 8123) as connection:
        assert connection.recv(100) == b"127.0.0.1"
    status, problem = daemon.refused(id="host-3", network="host", ports=[{"port": 80}])
    assert status == 400 and "/ports" in problem["message"]


def test_execds_port_asks_for_the_token(daemon):
    sandbox = daemon.create("token")
    url = f"http://{sandbox.status['address']}:44772"
    with httpx.Client(trust_env=False, timeout=10) as client:
        for headers in ({}, {TOKEN_HEADER: "0" * 64}, {TOKEN_HEADER: sandbox.status["execd_token"][:-1]}):
            assert client.post(f"{url}/command", json={"command": "true"}, headers=headers).status_code == 401
        right = {TOKEN_HEADER: sandbox.status["execd_token"]}
        assert client.post(f"{url}/command", json={"command": "true"}, headers=right).status_code == 200
    # Programs inside have no token either.
    assert sandbox.output("curl -s -o /dev/null -w '%{http_code}' -d '{}' http://127.0.0.1:44772/command") == "401"


def test_names_inside(daemon):
    sandbox = daemon.create("names", hostname="my-host", dns=["192.0.2.53", "192.0.2.54"])
    assert sandbox.output("hostname; cat /etc/hostname").split() == ["my-host", "my-host"]
    assert f"{sandbox.status['address']}\tmy-host" in sandbox.output("cat /etc/hosts").splitlines()
    assert "127.0.0.1\tlocalhost" in sandbox.output("cat /etc/hosts").splitlines()
    assert sandbox.output("python3 -c 'import socket; print(socket.gethostbyname(\"my-host\"))'") == (
        sandbox.status["address"])
    servers = [line.split()[1] for line in sandbox.output("cat /etc/resolv.conf").splitlines()
               if line.startswith("nameserver")]
    assert servers == ["192.0.2.53", "192.0.2.54"]
    # Files of its own, which it may change.
    sandbox.output("echo 192.0.2.1 mirror >> /etc/hosts; echo > /etc/resolv.conf")
    assert daemon.create("a-long-name-of-a-sandbox").output("hostname") == "a-long-name-"


def test_an_address_is_used_again_without_its_past(daemon):
    first = daemon.create("first", ports=[{"port": 8000}])
    port = first.status["ports"][0]["host_port"]
    serve(first, 8000)
    address = first.status["address"]
    assert read_from("127.0.0.1", port)
    first.remove()
    for i in range(20):
        again = daemon.create(f"again-{i}")
        assert ":1F40 " not in again.output("cat /proc/net/tcp")  # 8000
        if again.status["address"] == address:
            with pytest.raises(OSError):
                read_from("127.0.0.1", port)
        again.remove()
