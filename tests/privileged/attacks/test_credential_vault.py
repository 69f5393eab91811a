"""Attempts of a sandbox to see a secret of its credential vault, or to have it sent where it does not belong."""

import base64
import json
import socket
import struct

import pytest

from attack import attack, source
from conftest import KIND
from net_world import entered
from policy_world import AAAA, ALLOWED, HOST, OTHER, THIRD, wire
from tls_sites import Site
from vault_world import BOUND, EVIL, INSIDE, PINNED, PLAIN, POLICY, SECRET, get, inside

pytestmark = [pytest.mark.wall("Credential vaults", second="sandboxes never hold a secret: the egress process puts it in"),
              pytest.mark.attack(on="native docker")]
on_native, on_engines = pytest.mark.attack(on="native"), pytest.mark.attack(on="docker")

BEARER = f"Bearer {SECRET}"


def plain(path="/x", host=BOUND, more="", method="GET", body=""):
    return f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n{body}"


# --- what is allowed

@pytest.mark.parametrize("client", ["python", "curl"])
def test_the_secret_arrives_at_its_host_and_is_not_seen_inside(vaults, holder, client):
    if client == "python":
        answer = get(holder, f"https://{BOUND}/v1/x?y=z", headers={"Authorization": "Bearer mine", "X-Other": "kept"})
        said = json.dumps(answer)
        assert answer["status"] == 200, answer
    else:
        said = holder.output(f"curl -sSi -H 'Authorization: Bearer mine' -H 'X-Other: kept' 'https://{BOUND}/v1/x?y=z'")
        assert "200 OK" in said, said
    assert SECRET not in said and "[REDACTED]" in said and f"here is {BOUND}" in said
    seen, = vaults.take(BOUND)
    assert (seen["path"], seen["headers"]["authorization"], seen["headers"]["x-other"]) == ("/v1/x?y=z", BEARER, "kept")


def test_nothing_inside_holds_the_secret_or_a_key(holder):
    """Environment and arguments of every process that the sandbox can see, and the files of its own layer."""
    found = attack(holder, """
needles = [half + rest for half, rest in halves]
places = glob.glob('/proc/[0-9]*/environ') + glob.glob('/proc/[0-9]*/cmdline')
for top in ('/opt', '/tmp', '/run', '/var', '/root', '/etc/ssl', '/usr/local/share/ca-certificates'):
    for directory, _, names in os.walk(top):
        places += [os.path.join(directory, name) for name in names]
found = []
for place in places:
    try:
        text = open(place, errors='replace').read(1 << 22)
    except OSError:
        continue
    found += [[place, needle] for needle in needles if needle in text]
report(found)""", halves=[[SECRET[:8], SECRET[8:]], ["PRIVATE", " KEY"]])
    assert [each for each in found if not each[0].startswith("/etc/ssl/private")] == []


def test_unbound_hosts_keep_their_own_certificate(vaults, holder):
    ours = inside(holder, f"tls(socket.gethostbyname('{PLAIN}'), '{PLAIN}', verify=False).getpeercert(True).hex()")
    assert ours == vaults.sites[PLAIN].context.der
    assert inside(holder, f"tls(socket.gethostbyname('{BOUND}'), '{BOUND}').getpeercert(True).hex()") \
        != vaults.sites[BOUND].context.der


@pytest.mark.alike
def test_names_of_connections_below_a_wildcard_carry_less_than_a_kibibyte_a_second(vaults):
    """The interceptor asks for the names of bound hosts: who answers for them would read what they say."""
    prisoner = vaults.create()
    vaults.fill(prisoner, hosts=["*.bound.test"])
    asked = vaults.internet.names.asked
    before = len(asked)
    seconds = attack(prisoner, INSIDE + """
import time
socket.gethostbyname(bound)
begin = time.monotonic()
for number in range(100):
    host = f'{number}-{"x" * 55}.bound.test'
    raw(address, host, f'GET / HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n')
report(time.monotonic() - begin)
""", bound=BOUND, address=ALLOWED)
    carried = sum(len(name) - len(".bound.test") for name in set(asked[before:]) if name.endswith("x.bound.test"))
    assert 0 < carried <= 1024 + 512 * seconds, f"{carried} bytes in {seconds} s"
    prisoner.remove()


@pytest.mark.alike
def test_a_secret_that_the_server_echoes_is_not_seen_inside(vaults):
    """In a header, in a trailer, on an error page; in a body only where the operator has asked for that."""
    secret = "s3cret/with+signs?0123456789"
    prisoner = vaults.create()
    vaults.fill(prisoner, value=secret)
    inside(prisoner, f"socket.gethostbyname('{BOUND}')")
    said = inside(prisoner, "raw(address, sni, text)", address=ALLOWED, sni=BOUND, text=plain("/echo", more="Connection: close\r\n"))
    assert said.startswith("HTTP/1.1 500") and "X-Last: " not in said, said
    forms = [secret, base64.b64encode(f"x{secret}y".encode()).decode()[4:-4], "%2Fwith%2Bsigns%3F0123"]
    if KIND == "native":
        assert all(form in said for form in forms[1:]), said  # as the contract has it; the first one is spread over chunks
    else:
        assert all(form not in said for form in forms) and said.count("[REDACTED]") == 3, said
    assert vaults.take(BOUND)[-1]["headers"]["authorization"] == f"Bearer {secret}"
    prisoner.remove()


# --- the wrong host

@pytest.mark.alike
@pytest.mark.parametrize("host", [PLAIN, EVIL, BOUND + ":8443", "other.bound.test", f"{BOUND}, {EVIL}", f"{EVIL}@{BOUND}"])
def test_a_host_that_differs_from_the_tls_name_is_refused(vaults, holder, host):
    answer = inside(holder, "raw(address, sni, text)", address=ALLOWED, sni=BOUND, text=plain(host=host))
    assert answer.startswith(("HTTP/1.1 421", "HTTP/1.1 400")), answer
    assert vaults.take(BOUND) == []


@pytest.mark.alike
def test_a_bound_host_in_a_request_to_another_server_gets_no_secret(vaults, holder):
    inside(holder, f"socket.gethostbyname('{EVIL}')")
    answer = inside(holder, "raw(address, sni, text)", address=THIRD, sni=EVIL, text=plain(host=BOUND))
    assert answer.startswith("HTTP/1.1 200"), answer
    seen, = vaults.take(EVIL)
    assert "authorization" not in seen["headers"]


def test_the_address_that_the_sandbox_chose_does_not_count(vaults, holder):
    """A server of the attacker's behind the bound name: the request goes to the address that we resolved."""
    inside(holder, f"[socket.gethostbyname(name) for name in ('{EVIL}', '{BOUND}')]")
    answer = inside(holder, "raw(address, sni, text)", address=THIRD, sni=BOUND, text=plain())
    assert f"here is {BOUND}" in answer, answer
    assert vaults.take(EVIL) == [] and vaults.take(BOUND)[0]["headers"]["authorization"] == BEARER


def test_the_operator_says_where_a_host_is(vaults):
    """Without a name server, and whatever address the sandbox has chosen."""
    prisoner = vaults.create()
    vaults.fill(prisoner, [PINNED])
    inside(prisoner, f"socket.gethostbyname('{EVIL}')")
    vaults.take(BOUND)
    answer = inside(prisoner, "raw(address, sni, text)", address=THIRD, sni=PINNED, text=plain(host=PINNED))
    assert f"here is {BOUND}" in answer, answer
    assert vaults.take(EVIL) == [] and vaults.take(BOUND)[0]["headers"]["authorization"] == BEARER
    prisoner.remove()


def test_plain_http_to_a_host_that_is_bound_for_https_gets_no_secret(vaults, holder):
    assert get(holder, f"http://{BOUND}/x")["body"] == f"here is http {BOUND}"
    assert "authorization" not in vaults.take("http " + BOUND)[0]["headers"]


@pytest.mark.alike
def test_a_redirect_to_another_host_carries_no_secret(vaults, holder):
    said = holder.output(f"curl -sSkL --location-trusted https://{BOUND}/to/{EVIL}")
    assert f"here is {EVIL}" in said, said
    assert vaults.take(BOUND)[0]["headers"]["authorization"] == BEARER
    seen, = vaults.take(EVIL)
    assert SECRET not in str(seen)


def test_a_name_that_turns_into_the_host_or_a_sandbox_gets_no_connection(vaults):
    """The request is sent from outside the sandbox, where the sandbox's own rules do not hold."""
    here = Site(None, "the host", "0.0.0.0", 443, vaults.authority.context(BOUND, "turns.bound.test"))
    # On native these stay closed even to a policy that names them. A container's own network has its host as a neighbour.
    named = [{"action": "allow", "target": each} for each in (HOST, "10.96.0.0/16")] if KIND == "native" else []
    prisoner = vaults.create({"defaultAction": "deny", "egress": POLICY["egress"] + named})
    vaults.fill(prisoner, ["turns.bound.test"])
    gateway = [vaults.backend.gateway] if KIND == "native" else []
    for address in (HOST, *gateway, prisoner.address, "127.0.0.1", "169.254.169.254"):
        vaults.point("turns.bound.test", address)
        inside(prisoner, f"socket.gethostbyname('{PLAIN}')")
        answer = inside(prisoner, "raw(address, sni, text)", address=OTHER, sni="turns.bound.test",
                        text=plain(host="turns.bound.test"))
        assert answer.startswith("HTTP/1.1 502") and "credential binding api" in answer, (address, answer)
        assert here.seen == [], address
    here.shutdown()
    here.server_close()
    prisoner.remove()


@pytest.mark.alike
@pytest.mark.parametrize("what", ["itself", "expired", "wrong name"])
def test_a_server_without_a_good_certificate_gets_no_secret(vaults, what):
    name = f"{what.replace(' ', '-')}.bound.test"
    vaults.point(name, OTHER)
    old = vaults.sites[PLAIN].context
    make = {"itself": {"by_itself": True}, "expired": {"days": -1}, "wrong name": {}}[what]
    vaults.sites[PLAIN].context = vaults.authority.context(PLAIN if what == "wrong name" else name, **make)
    prisoner = vaults.create()
    vaults.fill(prisoner, [name])
    vaults.take(PLAIN)
    answer = get(prisoner, f"https://{name}/x")
    vaults.sites[PLAIN].context = old
    assert answer["status"] == 502 and "credential binding api" in answer["body"] and "certificate" in answer["body"], answer
    assert vaults.take(PLAIN) == []
    prisoner.remove()


# --- requests that are read in two ways

@pytest.mark.alike
@pytest.mark.parametrize("text", [
    plain(method="POST", more="Content-Length: 6\r\nTransfer-Encoding: chunked\r\n", body="0\r\n\r\nG"),
    plain(method="POST", more="Content-Length: 1\r\nContent-Length: 2\r\n", body="xx"),
    plain(method="POST", more="Transfer-Encoding: xchunked\r\n", body="0\r\n\r\n"),
    plain(method="POST", more="Transfer-Encoding : chunked\r\n", body="0\r\n\r\n"),
    plain(more="Authorization\x0b: x\r\n"), plain(more=" folded: x\r\n"), plain(more="X: a\x00b\r\n"),
    plain(path="/v1/../admin"), plain(path="/%2e%2e/admin"), plain(path="/v1\\..\\admin"),
    plain(method="TRACE"), plain(more=f"Host: {EVIL}\r\n"),
    f"GET https://{EVIL}/x HTTP/1.1\r\nHost: {BOUND}\r\n\r\n", f"CONNECT {EVIL}:443 HTTP/1.1\r\nHost: {BOUND}\r\n\r\n",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
    ids=["cl-te", "two-lengths", "unknown-coding", "space-before-colon", "odd-name", "folded", "nul", "dots", "encoded-dots",
         "backslashes", "trace", "two-hosts", "absolute", "connect", "http2"])
def test_a_request_that_servers_read_differently_is_not_sent_with_the_secret(vaults, holder, text):
    answer = inside(holder, "raw(address, sni, text)", address=ALLOWED, sni=BOUND, text=text)
    assert answer.startswith(("HTTP/1.1 4", "HTTP/1.1 5")) or answer == "", answer
    assert vaults.take(BOUND) == []


# --- ways around and to the interceptor

def test_quic_is_closed(vaults, holder):
    inside(holder, f"socket.gethostbyname('{BOUND}')")
    got = inside(holder, """attempt(lambda: (s := socket.socket(socket.AF_INET, socket.SOCK_DGRAM), s.connect((address, 443)),
        s.settimeout(10), s.send(b'x'), s.recv(10))[-1].decode())""", address=ALLOWED)
    assert got in ("ECONNREFUSED", "EACCES", "EHOSTUNREACH", "EPERM"), got


@pytest.mark.alike
def test_ipv6_leads_past_nothing(vaults, holder):
    """The bound host has an address of IPv6, where the attacker's server could be."""
    address = "2606:2800:21f:cb07:6820:80da:af6b:8b2c"
    vaults.internet.names.other_kinds[BOUND] = [wire(BOUND) + struct.pack("!HHIH", AAAA, 1, 60, 16)
                                                + socket.inet_pton(socket.AF_INET6, address)]
    closed = ("EACCES", "EADDRNOTAVAIL", "ECONNREFUSED", "EHOSTUNREACH", "ENETUNREACH", "EPERM")
    for kind in ("STREAM", "DGRAM"):
        for port in (80, 443):
            got = inside(holder, """attempt(lambda: (s := socket.socket(socket.AF_INET6, kind), s.settimeout(10),
                s.connect((address, port)), s.send(b'x'), s.recv(10))[-1].decode())""", kind=getattr(socket, f"SOCK_{kind}"),
                         address=address, port=port)
            assert got in closed, (kind, port, got)
    for ours in ("::1", "fe80::1%eth0", "::"):
        got = inside(holder, "attempt(lambda: socket.create_connection((ours, 15380), 5) and 'connected')", ours=ours)
        assert got != "connected", ours
    # IPv4 in the form of IPv6: the attacker's server behind the bound name, and the other way round.
    inside(holder, f"[socket.gethostbyname(name) for name in ('{EVIL}', '{BOUND}')]")
    answer = inside(holder, "raw(address, sni, text)", address=f"::ffff:{THIRD}", sni=BOUND, text=plain("/mapped"))
    assert f"here is {BOUND}" in answer, answer
    assert vaults.take(EVIL) == [] and vaults.take(BOUND)[0]["headers"]["authorization"] == BEARER
    answer = inside(holder, "raw(address, sni, text)", address=f"::ffff:{ALLOWED}", sni=EVIL, text=plain(host=EVIL))
    assert all("authorization" not in each["headers"] for each in vaults.take(BOUND)), answer
    # Names that are addresses belong to no binding.
    for host in ("[::1]", f"[::ffff:{ALLOWED}]", f"[{address}]:443"):
        answer = inside(holder, "raw(address, sni, text)", address=ALLOWED, sni=BOUND, text=plain(host=host))
        assert answer.startswith(("HTTP/1.1 421", "HTTP/1.1 400")), (host, answer)
    assert vaults.take(BOUND) == []


@on_native
def test_the_listener_is_not_reached_directly(vaults, holder):
    with open(f"/proc/{vaults.daemon.pid}/net/tcp") as table:
        ports = {int(line.split()[1].split(":")[1], 16) for line in table.readlines()[1:] if line.split()[3] == "0A"}
    for port in sorted(ports):
        got = inside(holder, "attempt(lambda: socket.create_connection((address, port), 5) and 'connected')",
                     address=vaults.backend.gateway, port=port)
        assert got != "connected", port


@on_engines
def test_a_connection_to_the_sidecars_own_port_is_closed_unread(vaults, holder):
    """The listener is on the loopback that sandbox and sidecar share."""
    said = inside(holder, f"attempt(lambda: tls('127.0.0.1', '{BOUND}', 15380, False) and 'a handshake')")
    assert said != "a handshake"
    assert vaults.take(BOUND) == []


def test_another_sandbox_has_no_part_in_the_vault(vaults, holder):
    other = vaults.create()
    assert get(other, f"https://{BOUND}/x", headers={"X-From": "other"})["status"] == 0  # the site's own certificate
    answer = inside(other, "raw(address, sni, text)", address=ALLOWED, sni=BOUND, text=plain())
    assert f"here is {BOUND}" in answer
    assert all("authorization" not in each["headers"] for each in vaults.take(BOUND))
    assert vaults.vault(other, expect=404) == "credential vault not found\n"
    other.remove()


@pytest.mark.alike
def test_the_api_of_the_vault_never_tells_a_value(vaults, holder):
    for path in ("", "/credentials", "/credentials/key", "/bindings", "/bindings/api"):
        assert SECRET not in json.dumps(vaults.vault(holder, path=path))
    token = vaults.server.client.get(f"/v1/sandboxes/{holder.id}").json()
    assert SECRET not in json.dumps(token)
    other = vaults.backend.gateway if KIND == "native" else holder.address
    got = inside(holder, "[attempt(lambda a=a: socket.create_connection((a, 18080), 5) and 'connected') for a in "
                 f"('127.0.0.1', '{other}')]")
    assert "connected" not in got


@pytest.mark.alike
def test_a_policy_that_closes_a_bound_host_is_refused(vaults, holder):
    answer = vaults.server.client.request("DELETE", f"/v1/sandboxes/{holder.id}/networkpolicy", json=["*.bound.test"])
    assert answer.status_code == 400 and "credential vault" in answer.text, answer.text


@on_native
def test_the_keys_of_the_host_are_roots_alone(vaults, holder):
    file = vaults.daemon.state / "egress-ca.pem"
    assert file.stat().st_mode & 0o777 == 0o600 and file.stat().st_uid == 0
    with open(f"/proc/{vaults.backend.egress_pid()}/status") as status:
        fields = dict(line.split(":", 1) for line in status.read().splitlines())
    assert fields["CapEff"].strip() == "0" * 16 and fields["Seccomp"].strip() == "2"
    assert holder.output("ls /proc | grep -c '^[0-9]' || true").strip() != "0"
    assert holder.run(f"cat {file}")[0] != 0
    with entered(vaults.internet.pid), socket.socket() as probe:
        probe.settimeout(5)
        assert probe.connect_ex((HOST, 15380)) != 0


@on_engines
def test_the_key_of_a_sandbox_is_its_sidecars_alone(vaults, holder):
    other = vaults.create()
    keys = [(vaults.backend.state(each) / "authority.pem") for each in (holder, other)]
    assert all(key.stat().st_mode & 0o777 == 0o600 and "PRIVATE KEY" in key.read_text() for key in keys)
    assert keys[0].read_text() != keys[1].read_text()
    for each in (holder, other):
        assert "PRIVATE KEY" not in json.dumps([vaults.backend.sidecar(each), vaults.daemon.inspect(each.id)])
        assert each.run("find / -xdev -name authority.pem | grep . || grep -sl 'PRIVATE KEY' /proc/*/environ")[1].strip() == ""
        # Neither its process nor its descriptors and memory are there.
        assert each.run("cat /proc/[0-9]*/comm | grep egress")[1].strip() == ""
    other.remove()


# --- names without a vault

@pytest.mark.alike
@pytest.mark.parametrize("verified", ["true", "false"])
def test_a_name_that_shares_an_address_with_an_allowed_one_is_closed_by_verify_sni(vaults, verified):
    """And stays reachable without it, as the packets do not name a host."""
    only = {"defaultAction": "deny", "egress": [{"action": "allow", "target": PLAIN}]}
    prisoner = vaults.create(only, extensions={"policy.verify_sni": verified})
    vaults.take(PLAIN)
    inside(prisoner, f"socket.gethostbyname('{PLAIN}')")
    for host in (PLAIN, "shares.the-address.test"):
        said = inside(prisoner, "raw(address, sni, text)", address=OTHER, sni=host, text=plain(host=host))
        reached = host == PLAIN or verified == "false"
        assert (f"here is {PLAIN}" in said) == reached, (host, said)
    for host in (PLAIN, "shares.the-address.test"):
        said = get(prisoner, f"http://{OTHER}/x", headers={"Host": host})
        reached = host == PLAIN or verified == "false"
        assert (said["status"] == 200) == reached and (reached or "denies" in said["body"]), (host, said)
    nameless = inside(prisoner, "raw(address, None, text)", address=OTHER, text=plain(host=PLAIN))
    assert (f"here is {PLAIN}" in nameless) == (verified == "false"), nameless
    prisoner.remove()


# --- changes, and restarts: the last ones, since they empty the vaults of all sandboxes

def test_rotation_and_removal_hold_for_open_connections(vaults):
    prisoner = vaults.create()
    vaults.fill(prisoner, value="first-value")
    program = f"""
connection = http.client.HTTPSConnection('{BOUND}', timeout=60)
for turn in range(3):
    open('/tmp/go').read()
    connection.request('GET', f'/turn-{{turn}}')
    answer = connection.getresponse()
    answer.read()
    open('/tmp/done', 'w').write(str(answer.status))
"""
    prisoner.output("mkfifo /tmp/go /tmp/done; cat > /tmp/program <<'END'\n" + source(INSIDE + program, {}) + "\nEND\nsetsid python3 /tmp/program "
                    ">/tmp/said 2>&1 < /dev/null & echo started")
    steps = [lambda: None,
             lambda: vaults.vault(prisoner, "PATCH", {"credentials": {"replace": [{"name": "key", "source": {"value": "second"}}]}}),
             lambda: vaults.vault(prisoner, "PATCH", {"bindings": {"delete": ["api"]}})]
    vaults.take(BOUND)
    for turn, step in enumerate(steps):
        step()
        said = prisoner.output("timeout 100 sh -c 'echo > /tmp/go; cat /tmp/done' || cat /tmp/said")
        assert said.strip() == "200", (turn, said)
    seen = {each["path"]: each["headers"].get("authorization") for each in vaults.take(BOUND)}
    assert seen == {"/turn-0": "Bearer first-value", "/turn-1": "Bearer second", "/turn-2": None}
    prisoner.remove()


def wait_for_state(vaults, prisoner):
    while (answer := vaults.server.client.get(f"/v1/sandboxes/{prisoner.id}/credential-vault")).status_code == 503:
        pass  # the process outside is being started
    return answer.json()


def test_a_vault_sleeps_with_its_sandbox(vaults):
    prisoner = vaults.create()
    vaults.fill(prisoner)
    for step, state in (("pause", "Paused"), ("resume", "Running")):
        assert vaults.server.client.post(f"/v1/sandboxes/{prisoner.id}/{step}").status_code == 202
        vaults.server.wait_state(prisoner.id, state)
    vaults.take(BOUND)
    assert get(prisoner, f"https://{BOUND}/awake")["status"] == 200
    assert vaults.take(BOUND)[0]["headers"]["authorization"] == BEARER
    prisoner.remove()


@pytest.mark.parametrize("who", ["inner", "outer"])
def test_a_vault_that_lost_its_values_refuses_until_it_is_filled_again(vaults, who):
    prisoner = vaults.create()
    vaults.fill(prisoner)
    assert get(prisoner, f"https://{BOUND}/before")["status"] == 200
    assert "missingValues" not in vaults.vault(prisoner)
    vaults.backend.kill(prisoner, who)
    vaults.take(BOUND)
    state = wait_for_state(vaults, prisoner)
    assert state["missingValues"] == ["key"] and state["revision"] == 1 and state["bindings"][0]["name"] == "api", state
    answer = get(prisoner, f"https://{BOUND}/lost")
    assert answer["status"] == 502 and "api" in answer["body"], answer
    assert vaults.take(BOUND) == []
    vaults.vault(prisoner, "PATCH", {"credentials": {"replace": [{"name": "key", "source": {"value": SECRET}}]}})
    assert "missingValues" not in vaults.vault(prisoner)
    assert get(prisoner, f"https://{BOUND}/after")["status"] == 200
    assert vaults.take(BOUND)[0]["headers"]["authorization"] == BEARER
    assert vaults.secrets_seen(prisoner) == []
    prisoner.remove()
