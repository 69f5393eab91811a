"""specs/egress-vectors.json, case by case, on a sidecar: its names, its packets and its API."""

import contextlib
import json
import pathlib
import subprocess

import pytest
from conftest import WWW
from name_server import ask
from refusing_kernel import refusing_kernel
from test_sidecar import REFUSED, reach

VECTORS = json.loads((pathlib.Path(__file__).resolve().parents[3] / "specs" / "egress-vectors.json").read_text())
assert VECTORS["names_have"] == WWW
DNS = 15353  # of the sidecar: also there when nothing leads questions to it
TTL_NAME = "ttl.example.com"


def elements(name):
    """{element: seconds that it lives, or None} of a set of the sidecar's table."""
    listed = subprocess.run(["nft", "-j", "list", "set", "inet", "opensandbox", name], capture_output=True, text=True, check=True)
    found = next(each["set"] for each in json.loads(listed.stdout)["nftables"] if "set" in each)
    out = {}
    for each in found.get("elem", []):
        timed = each.get("elem") if isinstance(each, dict) else None
        value = timed["val"] if timed else each
        if isinstance(value, dict):
            value = "{addr}/{len}".format(**value["prefix"]) if "prefix" in value else "-".join(value["range"])
        out[value] = timed.get("timeout") if timed else None
    return out


class Case:
    def __init__(self, running, internet, stack):
        self.running, self.internet, self.stack = running, internet, stack

    def ask(self, step):
        self.internet.names.add(step["ask"], WWW)
        assert ask("127.0.0.1", step["ask"], port=DNS).rcode == step["rcode"]

    def request(self, step):
        body = {"content": b" " * step["blanks"]} if "blanks" in step else {"json": step["body"]}
        answer = self.running.api(step["request"], **body)
        assert answer.status_code == step["status"], answer.text

    def shows(self, step):
        assert self.running.api("GET").json()["policy"] == step["shows"]

    def holds(self, step):
        assert list(elements(step["holds"])) == step["elements"]

    def opens(self, step):
        self.internet.names.add(TTL_NAME, WWW, ttl=step["opens"])
        assert ask("127.0.0.1", TTL_NAME, port=DNS).addresses == [WWW]
        assert elements("dyn_allow_v4") == {WWW: step["seconds"]}

    def connect(self, step):
        address, port = step["connect"].split(":")
        got = reach(address, int(port))
        assert got == "open" if step["reached"] else got in REFUSED

    def enforcement(self, step):
        assert step["enforcement"] == "fails"
        self.stack.enter_context(refusing_kernel("opensandbox"))  # nothing is enforced from now on


@pytest.mark.parametrize("vector", [*VECTORS["conformance"], *VECTORS["ports"], *VECTORS["deviations"]],
                         ids=lambda vector: vector["name"])
def test_vector(sidecar, internet, tmp_path, vector):
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "deny.always").write_text(vector.get("deny.always", ""))
    running = sidecar(vector["policy"], **vector.get("environment", {}))
    with contextlib.ExitStack() as stack:
        case = Case(running, internet, stack)
        for step in vector["steps"]:
            getattr(case, next(iter(step)))(step)
