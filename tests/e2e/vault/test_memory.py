"""The memory of the egress process, which serves all sandboxes of a host, stays bounded, whatever one sandbox does."""

import base64
import pathlib
import re

import pytest

from policy_world import ALLOWED
from tls_sites import Handler
from vault_world import BOUND, INSIDE, SECRET, inside

GIB = 1 << 30
IDLE, MOST_EACH = 300, 64  # connections, KiB
CACHED = 128               # certificates of hosts


class LargeHandler(Handler):
    """/gib is zeros. Uploads are counted and not kept."""

    def do_GET(self):
        if self.path != "/gib":
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Length", str(GIB))
        self.end_headers()
        block = bytes(1 << 20)
        for _ in range(GIB // len(block)):
            self.wfile.write(block)

    def do_PUT(self):
        size, buffer = int(self.headers["Content-Length"]), bytearray(1 << 20)
        left = size
        while left > 0 and (got := self.rfile.readinto(memoryview(buffer)[:min(left, len(buffer))])):
            left -= got
        self.server.seen.append({"path": self.path, "size": size - left, "authorization": self.headers["Authorization"]})
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()


@pytest.fixture(scope="module")
def large(vaults):
    """The bound host has a large file."""
    vaults.site(BOUND, ALLOWED, vaults.authority.context(BOUND), replaces=BOUND, handler=LargeHandler)
    return vaults


@pytest.fixture
def holder(large):
    made = large.create()
    large.fill(made, hosts=(BOUND, "*.bulk.bound.test"))
    large.take(BOUND)
    yield made
    made.remove()


class Memory:
    """Resident memory of the process, in KiB."""

    def __init__(self, vaults):
        self.process = pathlib.Path(f"/proc/{vaults.backend.egress_pid()}")

    def _field(self, name):
        return int(re.search(rf"^{name}:\s+(\d+) kB", (self.process / "status").read_text(), re.M)[1])

    def now(self):
        return self._field("VmRSS")

    def forget_peak(self):
        (self.process / "clear_refs").write_text("5")
        return self.now()

    def peak(self):
        return self._field("VmHWM")


@pytest.mark.parametrize("way", ["download", "upload"])
def test_a_gibibyte_passes_without_being_held(large, holder, way):
    curl = f"curl -sS --fail --http1.1 -o /dev/null -w '%{{size_download}} %{{size_upload}}' https://{BOUND}/gib"
    holder.output(f"curl -sS https://{BOUND}/warm")
    memory = Memory(large)
    before = memory.forget_peak()
    said = holder.output(curl if way == "download" else f"truncate -s {GIB} /tmp/gib && {curl} -T /tmp/gib")
    assert str(GIB) in said.split(), said
    assert memory.peak() - before < 4 * 1024
    if way == "upload":
        assert large.take(BOUND)[-1] == {"path": "/gib", "size": GIB, "authorization": f"Bearer {SECRET}"}


# Opens connections one after the other, each with one request, and keeps them until it is told.
HOLD = INSIDE + """
held = []
for _ in range(count):
    connection = tls(socket.gethostbyname(host), host)
    connection.sendall(f'GET /held HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n'.encode())
    said = b''
    while not said.endswith(b'here is ' + host.encode()):
        piece = connection.recv(65536)
        assert piece, said
        said += piece
    held.append(connection)
open('/tmp/told', 'w').write('held')
open('/tmp/enough').read()
"""


def test_idle_connections_cost_little_each(large, holder):
    def hold(count):
        program = base64.b64encode(f"import socket\nhost, count = {BOUND!r}, {count}\n{HOLD}".encode()).decode()
        holder.output(f"echo {program} | base64 -d >/tmp/hold.py; rm -f /tmp/told /tmp/enough; mkfifo /tmp/told /tmp/enough\n"
                      "setsid python3 /tmp/hold.py >/tmp/said 2>&1 </dev/null &\ntimeout 300 cat /tmp/told || cat /tmp/said")
        now = memory.now()
        holder.output("echo >/tmp/enough")
        return now

    memory = Memory(large)
    few = hold(20)
    assert (hold(20 + IDLE) - few) / IDLE <= MOST_EACH


def test_hosts_that_come_and_go_leave_nothing_behind(large, holder):
    """Certificates of the last ones only are kept."""
    def visit(first, count):
        names = f"[f'h{{n}}.bulk.bound.test' for n in range({first}, {first + count})]"
        # Without a request nobody asks where these hosts are. The address is open for as long as it is asked for.
        return inside(holder, f"len([tls(socket.gethostbyname('{BOUND}'), name).close() for name in {names}])")

    memory = Memory(large)
    assert visit(0, 2 * CACHED) == 2 * CACHED
    before = memory.now()
    assert visit(2 * CACHED, 2 * CACHED) == 2 * CACHED
    # One certificate with its context is almost twenty KiB.
    assert memory.now() - before < 2 * 1024
