"""Moments in which a network policy might not hold: while it changes, and while the processes that enforce it die."""

import contextlib
import json
import socket

import pytest

from attack import PRELUDE
from net_world import entered
from policy_walls import CLOSED, NETWORK, said
from policy_world import ALLOWED, HOST, INSIDE, OTHER, THIRD

pytestmark = [pytest.mark.wall("Changes of network policies", second="a table of the kernel's that outlives its processes"),
              pytest.mark.attack(on="native gvisor docker")]


def start(prisoner, name, program):
    """A program that goes on in the background, after it has said that it runs."""
    text = f"{PRELUDE}\n{INSIDE}\nos.setsid()\nlog = open('/tmp/{name}', 'w', buffering=1)\n{program}"
    prisoner.output(f"cat > /tmp/{name}.py <<'PROGRAM'\n{text}\nPROGRAM\n"
                    f"python3 /tmp/{name}.py > /tmp/{name}.out 2>&1 < /dev/null &\n"
                    f"until [ -s /tmp/{name} ] || grep -q Error /tmp/{name}.out; do sleep 0.05; done; cat /tmp/{name}.out")


def lines(prisoner, name):
    return prisoner.output(f"cat /tmp/{name}").split("\n")


@contextlib.contextmanager
def connection_from(walls, prisoner, address=ALLOWED, port=9999):
    """A connection of a program inside to the internet, seen from there: it sends each line back. The program first asks for
    the allowed name."""
    with entered(walls.internet.pid):
        listener = socket.create_server((address, port))
    with listener:
        listener.settimeout(30)
        start(prisoner, "flow", f"""
resolve('www.allowed.test')
connection = socket.create_connection(('{address}', {port}), 10)
connection.settimeout(None)
log.write('connected\\n')
try:
    while text := connection.recv(100):
        connection.sendall(text)
    log.write('ended\\n')
except OSError as error:
    log.write(f'{{errno.errorcode[error.errno]}}\\n')
""")
        flow, _ = listener.accept()
        flow.settimeout(5)
        with flow:
            yield flow


def lives(flow, text=b"still there"):
    flow.sendall(text)
    got = b""
    with contextlib.suppress(TimeoutError, ConnectionError):
        while len(got) < len(text):
            piece = flow.recv(100)
            if not piece:
                break
            got += piece
    return got == text


# Tries all the time what the policy forbids, and counts.
PROBE = f"""
tries = open_ = 0
while True:
    tries += 1
    for answer in (reach('{OTHER}', 80, 1), reach_by_udp('{OTHER}', 443, 0.05), reach('{THIRD}', 443, 1)):
        open_ += answer == '{HOST}'
    found = resolve('evil.test', timeout=0.3)
    open_ += isinstance(found, tuple) and bool(found[1])
    open_ += reach('8.8.8.8', 853, 0.5) == '{HOST}'
    log.write(f'{{tries}} {{open_}}\\n')
"""


# Names and connections that the policy permits, as fast as they come.
LOAD = f"""
log.write('begins\\n')
count = 0
while True:
    count += 1
    resolve('www.allowed.test', timeout=1)
    resolve(f'n{{count % 50}}.wild.test', timeout=1)
    reach('{ALLOWED}', 80, 1)
"""


def probes(prisoner):
    """(tries, how many of them got through)."""
    tries, opened = [line for line in lines(prisoner, "probe") if line][-1].split()
    return int(tries), int(opened)


def probe_on(prisoner, more=3):
    """Waits until the prober has made some more tries; how many of all got through."""
    before = probes(prisoner)[0]
    return int(prisoner.output(f"until [ $(tail -1 /tmp/probe | cut -d' ' -f1) -ge {before + more} ]; do sleep 0.05; done; "
                               "tail -1 /tmp/probe").split()[1])


# --- changes

def test_a_connection_does_not_outlive_its_revocation(walls, newcomer):
    with connection_from(walls, newcomer) as flow:
        assert lives(flow)
        walls.policy(newcomer, "DELETE", ["www.allowed.test"])
        assert not lives(flow)
    assert said(newcomer, "[reach(address), resolve('www.allowed.test')]", address=ALLOWED) == ["ECONNREFUSED", [3, []]]


def test_a_connection_outlives_changes_that_keep_its_name(walls, newcomer):
    with connection_from(walls, newcomer) as flow:
        for body in ([{"action": "allow", "target": "more.test"}], [{"action": "deny", "target": "other.test"}]):
            walls.policy(newcomer, "PATCH", body)
            assert lives(flow)
    assert said(newcomer, "reach(address)", address=ALLOWED) == HOST


@pytest.mark.parametrize("round_", range(5))
def test_no_connection_begins_after_a_change_was_answered(walls, newcomer, round_):
    start(newcomer, "race", f"""
while True:
    resolve('www.allowed.test', timeout=1)
    began = time.clock_gettime(time.CLOCK_REALTIME)
    if reach('{ALLOWED}', 80, 2) == '{HOST}':
        log.write(f'{{began}}\\n')
""")
    walls.policy(newcomer, "PATCH", [{"action": "deny", "target": "www.allowed.test"}])
    answered = float(newcomer.output("date +%s.%N"))
    assert said(newcomer, "[reach(address) for _ in range(20)]", address=ALLOWED) == ["ECONNREFUSED"] * 20
    assert [line for line in lines(newcomer, "race") if line and float(line) > answered] == []


@pytest.mark.attack(on="native gvisor")
def test_the_operators_rules_beat_the_policy_as_soon_as_they_are_written(walls, newcomer):
    assert said(newcomer, "reach_name('www.allowed.test')") == HOST
    try:
        (walls.rules / "deny.always").write_text("www.allowed.test\n")
        assert said(newcomer, "next(got for _ in range(2000) if (got := resolve('www.allowed.test'))[0] == 3 or "
                              "time.sleep(0.02))") == [3, []]
        assert said(newcomer, "reach(address)", address=ALLOWED) == "ECONNREFUSED"
        (walls.rules / "deny.always").write_text("a.*.mistake\n")
        assert said(newcomer, "[resolve('www.allowed.test')[0] for _ in range(20)]") == [3] * 20
    finally:
        (walls.rules / "deny.always").write_text("")
    assert said(newcomer, "next(got for _ in range(2000) if (got := resolve('www.allowed.test'))[0] == 0 or "
                          "time.sleep(0.02))") == [0, [ALLOWED]]


@pytest.mark.alike
@pytest.mark.parametrize("body", [[{"action": "allow", "target": "a.*.com"}], [{"action": "block", "target": "a.com"}], [],
                                  [{"action": "allow", "target": f"n{i}.test"} for i in range(5000)]],
                         ids=["target", "action", "empty", "too-many"])
def test_a_change_that_is_refused_changes_nothing(walls, newcomer, body):
    before = walls.policy(newcomer)
    answer = walls.server.client.request("PATCH", f"/v1/sandboxes/{newcomer.id}/networkpolicy", json=body)
    assert answer.status_code in (400, 413), answer.text
    assert walls.policy(newcomer) == before
    assert said(newcomer, "reach_name('www.allowed.test')") == HOST
    assert said(newcomer, "reach(address)", address=OTHER) in CLOSED


# --- deaths, while a program tries all the time

def test_nothing_opens_while_the_egress_process_dies_again_and_again(walls, newcomer):
    with connection_from(walls, newcomer) as flow:
        start(newcomer, "load", LOAD)
        start(newcomer, "probe", PROBE)
        for _ in range(5):
            walls.kill_egress(newcomer)
            assert probe_on(newcomer) == 0
            assert lives(flow)
            # It comes back, and names resolve again.
            assert said(newcomer, "next(got for _ in range(600) if (got := resolve('www.allowed.test', timeout=1)) == "
                                  f"(0, ['{ALLOWED}']) or time.sleep(0.05))") == [0, [ALLOWED]]
        assert probe_on(newcomer) == 0


def test_nothing_opens_while_the_daemon_of_the_backend_dies_again_and_again(walls, newcomer):
    with connection_from(walls, newcomer) as flow:
        start(newcomer, "load", LOAD)
        start(newcomer, "probe", PROBE)
        walls.policy(newcomer, "PATCH", [{"action": "allow", "target": "kept.test"}])
        for _ in range(3):
            walls.daemon.kill()
            assert lives(flow)
            walls.daemon.start()
            assert lives(flow)
            assert probe_on(newcomer) == 0
            assert said(newcomer, "next(got for _ in range(600) if (got := resolve('www.allowed.test', timeout=1)) == "
                                  f"(0, ['{ALLOWED}']) or time.sleep(0.05))") == [0, [ALLOWED]]
            assert said(newcomer, "reach(address)", address=ALLOWED) == HOST
        assert walls.policy(newcomer)["policy"]["egress"][0]["target"] == "kept.test"
        assert probe_on(newcomer) == 0


def test_nothing_opens_while_the_server_dies_again_and_again(walls, newcomer):
    start(newcomer, "load", LOAD)
    start(newcomer, "probe", PROBE)
    for _ in range(3):
        walls.server.kill()
        walls.server.start()
        assert probe_on(newcomer) == 0
    assert walls.policy(newcomer)["mode"] == "enforcing"


@pytest.mark.attack(on="docker")
def test_nothing_opens_while_the_whole_sidecar_dies_again_and_again(walls, newcomer):
    start(newcomer, "load", LOAD)
    start(newcomer, "probe", PROBE)
    for _ in range(3):
        with walls.daemon.events(type=["container"], event=["start"], container=[f"sandbox-egress-{newcomer.id}"]) as events:
            walls.daemon.ask("POST", f"/containers/sandbox-egress-{newcomer.id}/kill")
            next(events)
        assert probe_on(newcomer) == 0
        assert said(newcomer, "next(got for _ in range(600) if (got := resolve('www.allowed.test', timeout=1)) == "
                              f"(0, ['{ALLOWED}']) or time.sleep(0.05))") == [0, [ALLOWED]]


@pytest.mark.attack(on="native gvisor")
def test_a_table_that_another_program_deletes_is_closed_again_by_the_next_change(walls, newcomer):
    """`nft flush ruleset` of the host's root opens everything: the next operation of sandboxd puts all rules back."""
    import subprocess
    subprocess.run(["nft", "delete", "table", "inet", NETWORK["table"]], check=True)
    other = walls.create()
    assert said(newcomer, "reach(address)", address=OTHER) in CLOSED
    assert json.loads(json.dumps(walls.policy(newcomer)))["mode"] == "enforcing"
    other.remove()
