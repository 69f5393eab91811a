"""Wrong policies: refused with status and place, and nothing is less restricted afterwards."""

import json

import pytest
from test_clients import ALLOWED, OTHER, POLICY, reaches


def rule(target, action="allow", **more):
    return {"action": action, "target": target, **more}


MANY = {"egress": [rule(f"h{i}.example") for i in range(5000)]}

# (policy, status of a create, status of PUT)
WRONG = [
    ([], 422, 400),
    ("deny", 422, 400),
    ({"defaultAction": "block"}, 400, 400),
    ({"defaultAction": 1}, 422, 400),
    ({"egress": {}}, 422, 400),
    ({"egress": [1]}, 422, 400),
    ({"egress": [None]}, 422, 400),
    ({"egress": [rule("a.com", "permit")]}, 400, 400),
    ({"egress": [{"action": "allow"}]}, 422, 400),
    ({"egress": [rule("")]}, 422, 400),
    ({"egress": [rule(" ")]}, 400, 400),
    ({"egress": [rule(7)]}, 422, 400),
    ({"egress": [rule("*")]}, 400, 400),
    ({"egress": [rule("a.*.com")]}, 400, 400),
    ({"egress": [rule("https://a.com")]}, 400, 400),
    ({"egress": [rule("a.com:443")]}, 400, 400),
    ({"egress": [rule("10.0.0.0/33")]}, 400, 400),
    ({"egress": [rule("256.1.1.1")]}, 400, 400),
    ({"egress": [rule("fe80::1%eth0")]}, 400, 400),
    ({"egress": [rule("a.com", ports=[443])]}, 400, 400),
    ({"egress": [rule("10.0.0.1", ports=[0])]}, 422, 400),
    ({"egress": [rule("10.0.0.1", ports="443")]}, 422, 400),
    ({"egress": [rule("10.0.0.1", port=[443])]}, 400, 400),
    ({"egres": [rule(OTHER)]}, 400, 400),
    (MANY, 413, 413),
]


def test_wrong_policies_of_a_create_are_refused(server):
    for policy, status, _ in WRONG:
        answer = server.post_sandbox(networkPolicy=policy)
        assert answer.status_code == status, f"{json.dumps(policy)[:100]}: {answer.text}"
        assert answer.json()["message"].startswith("/networkPolicy"), answer.text
    huge = server.post_sandbox(networkPolicy={"egress": [rule(f"h{i}.example.com") for i in range(100_000)]})
    assert huge.status_code == 413
    assert server.client.get("/v1/sandboxes").json()["items"] == []


@pytest.mark.parametrize("fields", [{"credentialProxy": {"enabled": True}}, {}], ids=["vault", "interception"])
def test_certificates_of_servers_are_always_verified(server, fields):
    insecure = "OPENSANDBOX_EGRESS_MITMPROXY_SSL_INSECURE"
    answer = server.post_sandbox(networkPolicy=POLICY, **fields,
                                 env={insecure: "true", "OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT": "true"})
    assert (answer.status_code, answer.json()["code"]) == (400, "SANDBOX::INVALID_PARAMETER"), answer.text
    assert insecure in answer.json()["message"]


@pytest.fixture
def sandbox(server):
    made = server.create(image={"uri": "host"}, networkPolicy=POLICY)["id"]
    yield made
    server.delete(made)


def test_wrong_changes_change_nothing(server, sandbox):
    url = f"/v1/sandboxes/{sandbox}/networkpolicy"
    before = server.client.get(url).json()
    for policy, _, status in WRONG:
        answer = server.client.put(url, json=policy)
        assert answer.status_code == status, f"{json.dumps(policy)[:100]}: {answer.text}"
    for body in ("{", "[]", "{}", "7", '[{"action":"allow"}]', '[{"action":"allow","target":"*"}]',
                 json.dumps(MANY["egress"])):
        answer = server.client.patch(url, content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code in (400, 413), f"{body[:80]}: {answer.text}"
    for body in ("{", "[]", "{}", "[1]", '"a.com"'):
        answer = server.client.request("DELETE", url, content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 400, f"{body}: {answer.text}"
    huge = server.client.put(url, json={"egress": [rule(f"h{i}.example.com") for i in range(100_000)]})
    assert huge.status_code == 413
    assert server.client.get(url).json() == before
    assert reaches(server, sandbox, ALLOWED) and not reaches(server, sandbox, OTHER)
