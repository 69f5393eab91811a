"""Fixtures for attacks on network policies: a server whose sandboxes have a policy, and an internet around it."""

import os
import pathlib
import signal

import pytest

from attack import attack
from policy_world import ALLOWED, HOST, INSIDE, NAME_SERVER, OTHER, PolicyInternet, record
from docker_engine import EGRESS_IMAGE
from prison import ENGINES, Prisoner
from sandboxd_process import Sandboxd
from server_process import Server

KIND = os.environ.get("BACKEND", "native")
NETWORK = {"subnet": "10.95.0.0/16", "table": "osb_walls", "interface_prefix": "osbv-"}
GATEWAY = {"docker": "172.17.0.1", "podman": "10.88.0.1"}.get(KIND, "10.95.0.1")
POLICY = {"defaultAction": "deny", "egress": [
    {"action": "allow", "target": "www.allowed.test"}, {"action": "deny", "target": "denied.wild.test"},
    {"action": "allow", "target": "*.wild.test"}, {"action": "allow", "target": "rebind.test"},
    {"action": "allow", "target": "poison.test"}]}
CLOSED = {"timeout", "ECONNREFUSED", "EHOSTUNREACH", "ENETUNREACH", "EACCES", "EPERM", "EADDRNOTAVAIL", "EINVAL", "ECONNRESET",
          "ENOTCONN", "no such name"}


def said(inmate, expression, functions=INSIDE, **values):
    """The value of an expression inside. In the shared sandbox the same program asks for the allowed name afterwards."""
    if not inmate.is_shared:
        return attack(inmate, functions + f"report({expression})", **values)
    program = functions + f"got = {expression}\nreport([got, reach_name('www.allowed.test')])"
    got, inmate.reached_since = attack(inmate, program, **values)
    return got


class Walls:
    """A prison as far as Prisoner asks for one."""

    def __init__(self, directory):
        self.internet = PolicyInternet()
        names = self.internet.names.answers
        names["www.allowed.test"] = ([record("www.allowed.test", ALLOWED)], [])
        names["evil.test"] = ([record("evil.test", OTHER)], [])
        names["denied.wild.test"] = ([record("denied.wild.test", OTHER)], [])
        self.rules = directory / "rules"
        self.rules.mkdir()
        if KIND in ENGINES:
            self.daemon = ENGINES[KIND]()
            self.daemon.load_egress()
            settings = {"egress": {"image": EGRESS_IMAGE, "dns_upstream": [NAME_SERVER]}}
        else:
            egress = {"resolvers": [f"{NAME_SERVER}:53"], "rules_directory": str(self.rules)}
            self.daemon = Sandboxd(settings={"network": NETWORK, "egress": egress})
            settings = {"secure_runtime": {"type": "gvisor"}} if KIND == "gvisor" else {}
        self.server = Server(self.daemon, settings=settings)

    def create(self, policy=None):
        return Prisoner(self, self.server.create(networkPolicy=policy or POLICY)["id"])

    def policy(self, prisoner, method="GET", body=None):
        """The answer of the policy API."""
        answer = self.server.client.request(method, f"/v1/sandboxes/{prisoner.id}/networkpolicy", json=body)
        assert answer.status_code == 200, f"{answer.status_code} {answer.text}\n{self.daemon.log()[-3000:]}"
        return answer.json()

    def kill_egress(self, prisoner):
        """SIGKILL for the process that enforces the policy: the host's, or that of the sandbox's sidecar."""
        if KIND in ENGINES:
            assert self.daemon.kill_children(f"sandbox-egress-{prisoner.id}") == 1
            return
        children = []
        for task in pathlib.Path(f"/proc/{self.daemon.pid}/task").iterdir():
            children += (task / "children").read_text().split()
        os.kill(next(int(pid) for pid in children if "opensandbox-egr" in pathlib.Path(f"/proc/{pid}/comm").read_text()),
                signal.SIGKILL)

    def close(self):
        self.server.remove_all()
        self.server.close()
        self.daemon.close()
        self.internet.close()


@pytest.fixture(scope="module")
def walls(tmp_path_factory):
    made = Walls(tmp_path_factory.mktemp("walls"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def shared(walls):
    made = walls.create()
    made.is_shared = True
    return made


@pytest.fixture
def inmate(walls, shared):
    """One sandbox for all attacks that do it no harm. Afterwards the allowed name still works, and no other name server was
    asked."""
    shared.reached_since = None
    yield shared
    if shared.reached_since != HOST:
        assert said(shared, "reach_name('www.allowed.test')") == HOST
    assert walls.internet.leaked() == []


@pytest.fixture
def newcomer(walls):
    made = walls.create()
    yield made
    made.remove()
