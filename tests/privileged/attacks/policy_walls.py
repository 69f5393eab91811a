"""Fixtures for attacks on network policies: a server whose sandboxes have a policy, and an internet around it."""

import os

import pytest

from attack import attack
from policy_world import ALLOWED, HOST, INSIDE, NAME_SERVER, OTHER, PolicyInternet, record
from prison import Prisoner
from sandboxd_process import Sandboxd
from server_process import Server

NETWORK = {"subnet": "10.95.0.0/16", "table": "osb_walls", "interface_prefix": "osbv-"}
GATEWAY = "10.95.0.1"
POLICY = {"defaultAction": "deny", "egress": [
    {"action": "allow", "target": "www.allowed.test"}, {"action": "deny", "target": "denied.wild.test"},
    {"action": "allow", "target": "*.wild.test"}, {"action": "allow", "target": "rebind.test"},
    {"action": "allow", "target": "poison.test"}]}
CLOSED = {"timeout", "ECONNREFUSED", "EHOSTUNREACH", "ENETUNREACH", "EACCES", "EPERM", "EADDRNOTAVAIL", "EINVAL", "ECONNRESET",
          "ENOTCONN", "no such name"}


def said(inmate, expression, **values):
    """The value of an expression inside."""
    return attack(inmate, INSIDE + f"report({expression})", **values)


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
        egress = {"resolvers": [f"{NAME_SERVER}:53"], "rules_directory": str(self.rules)}
        self.daemon = Sandboxd(settings={"network": NETWORK, "egress": egress})
        gvisor = {"secure_runtime": {"type": "gvisor"}} if os.environ.get("BACKEND") == "gvisor" else {}
        self.server = Server(self.daemon, settings=gvisor)

    def create(self, policy=None):
        return Prisoner(self, self.server.create(networkPolicy=policy or POLICY)["id"])

    def policy(self, prisoner, method="GET", body=None):
        """The answer of the policy API."""
        answer = self.server.client.request(method, f"/v1/sandboxes/{prisoner.id}/networkpolicy", json=body)
        assert answer.status_code == 200, f"{answer.status_code} {answer.text}\n{self.daemon.log()[-3000:]}"
        return answer.json()

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
    return walls.create()


@pytest.fixture
def inmate(walls, shared):
    """One sandbox for all attacks that do it no harm. Afterwards the allowed name still works, and no other name server was
    asked."""
    yield shared
    assert said(shared, "reach_name('www.allowed.test')") == HOST
    assert walls.internet.leaked() == []


@pytest.fixture
def newcomer(walls):
    made = walls.create()
    yield made
    made.remove()
