"""Network policies on Docker: a sidecar per sandbox, against a small internet of the test's own."""

import contextlib

import pytest

from docker_engine import EGRESS_IMAGE, host_layer
from fake_internet import OTHER_RESOLVER, RESOLVER, FakeInternet

ALLOWED, OTHER = "93.184.216.34", "93.184.216.35"
POLICY = {"defaultAction": "deny", "egress": [{"action": "allow", "target": "allowed.example.com"},
                                              {"action": "allow", "target": "*.wild.example.org"},
                                              {"action": "allow", "target": OTHER, "ports": [8443]}]}
TOKEN = "OPENSANDBOX-EGRESS-AUTH"


@pytest.fixture(scope="module")
def internet():
    running = FakeInternet()
    yield running
    running.close()


@pytest.fixture(scope="module", autouse=True)
def images(engine):
    engine.load_egress()
    engine.load("host:latest", [host_layer()])


@pytest.fixture
def policies(make_server, engine, internet):
    running = make_server(settings={"egress": {"image": EGRESS_IMAGE, "dns_upstream": [RESOLVER]}})
    yield running
    running.remove_all()


FETCH = """python3 -c 'import sys, urllib.request
try: print(urllib.request.urlopen(sys.argv[1], timeout=30).read().decode())
except OSError as error: print("-", error)' """


def fetch(server, id, url):
    """The answer, or "" when there is none."""
    said = server.run(id, FETCH + url)
    return "" if said.startswith("- ") else said


def address_of(box):
    return next(each["IPAddress"] for each in box["NetworkSettings"]["Networks"].values())


def sidecar(engine, id):
    return engine.ask("GET", f"/containers/sandbox-egress-{id}/json")


@contextlib.contextmanager
def follow_log(engine, container):
    """Lines from now on."""
    query = {"follow": "1", "stdout": "1", "stderr": "1", "tail": "0"}
    with engine.client.stream("GET", f"/containers/{container}/logs", params=query, timeout=120) as stream:
        yield (line for line in stream.iter_lines())


def test_names_and_addresses(policies, engine, internet):
    server = policies
    id = server.create(image={"uri": "host"}, networkPolicy=POLICY)["id"]
    assert fetch(server, id, "http://allowed.example.com/") == f"{ALLOWED}:80"
    assert fetch(server, id, "http://a.wild.example.org/") == "93.184.216.36:80"
    assert fetch(server, id, f"http://{OTHER}:8443/") == f"{OTHER}:8443"
    for url in ("http://other.example.com/", f"http://{OTHER}/", "http://private.example.com/",
                "http://metadata.example.com/", f"http://{OTHER_RESOLVER}/", f"http://{RESOLVER}/",
                "http://allowed.example.com:853/"):
        assert fetch(server, id, url) == "", url


def test_the_containers(policies, engine, internet):
    server = policies
    id = server.create(image={"uri": "host"}, networkPolicy=POLICY)["id"]
    box, side = engine.inspect(id), sidecar(engine, id)
    assert side["HostConfig"]["NetworkMode"] == f"container:{box['Id']}"
    assert {"NET_ADMIN", "NET_RAW"} <= {name.removeprefix("CAP_") for name in box["HostConfig"]["CapDrop"]}
    assert {"44772/tcp", "8080/tcp"} <= set(box["HostConfig"]["PortBindings"])
    token = side["Config"]["Labels"]
    assert token == {**token, "opensandbox.io/egress-sidecar-for": id}
    # Nothing inside knows the token, and nothing inside reaches the policy API.
    secret = server.client.get(f"/v1/sandboxes/{id}/endpoints/18080").json()["headers"][TOKEN]
    assert secret not in server.run(id, "cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'; env")
    for host in ("127.0.0.1", address_of(box)):
        assert fetch(server, id, f"http://{host}:18080/") == ""


def test_the_image_is_small(policies, engine):
    """Each sandbox with a policy has a container of it: the program, the libraries it needs, authorities, and no tools."""
    assert engine.ask("GET", f"/images/{EGRESS_IMAGE}/json")["Size"] <= 10 << 20


def test_the_policy_api(policies, internet):
    server = policies
    id = server.create(image={"uri": "host"}, networkPolicy=POLICY)["id"]
    endpoint = server.client.get(f"/v1/sandboxes/{id}/endpoints/18080").json()
    assert endpoint["endpoint"].endswith(f"/sandboxes/{id}/proxy/18080")
    path = f"/v1/sandboxes/{id}/proxy/18080/policy"
    assert server.client.get(path).status_code == 401
    got = server.client.get(path, headers=endpoint["headers"]).json()
    assert got["enforcementMode"] == "dns+nft" and got["policy"]["egress"][0] == POLICY["egress"][0]
    by_server = f"/v1/sandboxes/{id}/networkpolicy"
    assert server.client.get(by_server, headers={TOKEN: "forged"}).json() == got
    assert server.client.patch(by_server, json=[{"action": "allow", "target": "other.example.com"}]).status_code == 200
    assert fetch(server, id, "http://other.example.com/") == f"{OTHER}:80"
    assert server.client.request("DELETE", by_server, json=["other.example.com"]).status_code == 200
    assert fetch(server, id, "http://other.example.com/") == ""
    assert server.client.put(by_server, json={"defaultAction": "block"}).status_code == 400
    assert server.client.put(by_server, json={"defaultAction": "deny"}).json()["mode"] == "deny_all"
    assert fetch(server, id, "http://allowed.example.com/") == ""
    decisions = server.client.get(f"/v1/sandboxes/{id}/proxy/18080/decisions", headers=endpoint["headers"]).json()
    assert {each["name"]: each["verdict"] for each in decisions["decisions"]}["allowed.example.com"] == "deny"


def test_a_worker_that_is_killed_leaves_the_network_closed_and_comes_back(policies, engine, internet):
    server = policies
    id = server.create(image={"uri": "host"}, networkPolicy=POLICY)["id"]
    path = f"/v1/sandboxes/{id}/networkpolicy"
    rule = {"action": "allow", "target": "other.example.com"}
    assert server.client.patch(path, json=[rule]).status_code == 200
    assert fetch(server, id, "http://other.example.com/") == f"{OTHER}:80"
    with follow_log(engine, f"sandbox-egress-{id}") as log:
        assert engine.kill_children(f"sandbox-egress-{id}") == 1
        assert fetch(server, id, "http://93.184.216.37/") == ""
        while "egress.loaded" not in next(log):
            pass
    # The change has outlived the process.
    while (answer := server.client.get(path)).status_code == 503:
        pass
    assert answer.json()["policy"]["egress"][0] == rule
    assert fetch(server, id, "http://other.example.com/") == f"{OTHER}:80"


# Tries targets that the policy denies, without a pause, until it is told to end; says how often, and which it reached.
PROBER = f"""
import os, socket
tries, reached = 0, []
while not os.path.exists("/tmp/enough"):
    for address in ("{OTHER}", "93.184.216.37", "10.1.2.3"):
        with socket.socket() as probe:
            probe.settimeout(0.2)
            tries += 1
            if probe.connect_ex((address, 80)) == 0:
                reached.append(address)
open("/tmp/said.new", "w").write(f"{{tries > 0}} {{reached}}")
os.rename("/tmp/said.new", "/tmp/said")
"""


@contextlib.contextmanager
def probing(server, id):
    server.run(id, f"cat >/tmp/prober.py <<'END'\n{PROBER}\nEND\npython3 /tmp/prober.py >/dev/null 2>&1 </dev/null &")
    yield
    assert server.run(id, "touch /tmp/enough; until [ -e /tmp/said ]; do sleep 0.05; done; cat /tmp/said") == "True []"


def wait_for_policy(server, id):
    # The server's answer while the sidecar does not listen.
    while (answer := server.client.get(f"/v1/sandboxes/{id}/networkpolicy")).status_code == 503:
        pass
    return answer.json()


def test_a_sidecar_that_is_killed_is_started_again_in_the_same_network(policies, engine, internet):
    server = policies
    id = server.create(image={"uri": "host"}, networkPolicy=POLICY)["id"]
    rule = {"action": "allow", "target": "other.example.com"}
    assert server.client.patch(f"/v1/sandboxes/{id}/networkpolicy", json=[rule]).status_code == 200
    address = address_of(engine.inspect(id))
    with probing(server, id):
        for how in ("KILL", "KILL", "TERM"):
            with engine.events(type=["container"], event=["start"], container=[f"sandbox-egress-{id}"]) as events:
                engine.ask("POST", f"/containers/sandbox-egress-{id}/kill", params={"signal": how})
                next(events)
            # The change has outlived the container, and the way in and out is the old one.
            assert wait_for_policy(server, id)["policy"]["egress"][0] == rule
            assert fetch(server, id, "http://allowed.example.com/") == f"{ALLOWED}:80"
            assert address_of(engine.inspect(id)) == address


def test_a_server_starts_a_sidecar_that_ended_in_its_absence(policies, engine, internet):
    server = policies
    id = server.create(image={"uri": "host"}, networkPolicy=POLICY)["id"]
    with probing(server, id):
        server.stop()
        engine.ask("POST", f"/containers/sandbox-egress-{id}/kill")
        server.start()
        wait_for_policy(server, id)
        assert fetch(server, id, "http://allowed.example.com/") == f"{ALLOWED}:80"


def test_a_sandbox_that_takes_the_port_of_the_policy_api_gets_no_token(policies, engine, internet):
    server = policies
    id = server.create(image={"uri": "host"}, networkPolicy=POLICY)["id"]
    server.run(id, "python3 -c 'import socket\nwhile True:\n try: listener = socket.create_server((\"\", 18080)); break\n"
                   " except OSError: pass\nwhile True: open(\"/tmp/token\", \"ab\").write("
                   "listener.accept()[0].recv(4096))' >/dev/null 2>&1 </dev/null &")
    with engine.events(type=["container"], event=["die"], container=[f"sandbox-egress-{id}"]) as events:
        engine.ask("POST", f"/containers/sandbox-egress-{id}/kill")
        next(events)
        # Either the sidecar has the port again, or the sandbox has it, and then no answer of its leaves.
        answer = server.client.get(f"/v1/sandboxes/{id}/networkpolicy")
    assert answer.status_code in (200, 502, 503, 504), answer.text
    assert server.run(id, "cat /tmp/token 2>/dev/null; true") == ""


def test_pause_and_resume(policies, engine, internet):
    server = policies
    id = server.create(image={"uri": "host"}, networkPolicy=POLICY)["id"]
    assert server.client.post(f"/v1/sandboxes/{id}/pause").status_code == 202
    server.wait_state(id, "Paused")
    assert sidecar(engine, id)["State"]["Status"] == "paused"
    assert server.client.post(f"/v1/sandboxes/{id}/resume").status_code == 202
    server.wait_state(id, "Running")
    assert fetch(server, id, "http://allowed.example.com/") == f"{ALLOWED}:80"
    # A sidecar that was killed meanwhile comes back with its sandbox.
    assert server.client.post(f"/v1/sandboxes/{id}/pause").status_code == 202
    server.wait_state(id, "Paused")
    engine.ask("POST", f"/containers/sandbox-egress-{id}/kill")
    assert server.client.post(f"/v1/sandboxes/{id}/resume").status_code == 202
    server.wait_state(id, "Running")
    wait_for_policy(server, id)
    assert fetch(server, id, "http://allowed.example.com/") == f"{ALLOWED}:80"


def test_another_server_takes_it_over(policies, engine, internet):
    server = policies
    id = server.create(image={"uri": "host"}, networkPolicy=POLICY)["id"]
    server.stop()
    server.start()
    assert server.client.get(f"/v1/sandboxes/{id}/networkpolicy").json()["policy"]["egress"][0] == POLICY["egress"][0]
    assert fetch(server, id, "http://allowed.example.com/") == f"{ALLOWED}:80"
    assert fetch(server, id, "http://other.example.com/") == ""


def test_the_sidecar_goes_with_its_sandbox(policies, engine, internet):
    server = policies
    id = server.create(image={"uri": "host"}, networkPolicy=POLICY)["id"]
    server.delete(id)
    assert engine.containers(**{"opensandbox.io/egress-sidecar-for": id}) == []


def test_policies_that_cannot_be_enforced(policies, make_server, engine):
    server = policies
    for policy in ({"defaultAction": "block"}, {"egress": [{"action": "allow", "target": "*"}]},
                   {"egress": [{"action": "allow", "target": "a.com", "ports": [1]}]}):
        refused = server.post_sandbox(networkPolicy=policy)
        assert (refused.status_code, refused.json()["code"]) == (400, "SANDBOX::INVALID_PARAMETER")
    refused = server.post_sandbox(networkPolicy=POLICY, extensions={"bootstrap.execd.isolation": "enable"})
    assert refused.status_code == 400 and "SYS_ADMIN" in refused.json()["message"]
    refused = server.post_sandbox(networkPolicy=POLICY, env={"OPENSANDBOX_EGRESS_TOKEN": "true"})
    assert refused.status_code == 400 and "TOKEN" in refused.json()["message"]
    assert engine.containers(**{"opensandbox.io/egress-sidecar-for": ""}) == []
