"""Policy templates of a create, enforced and in audit mode."""

import pytest
from osb_program import Osb
from test_clients import ALLOWED, OTHER, reaches


@pytest.fixture
def create(server):
    made = []

    def make(template, **fields):
        made.append(server.create(image={"uri": "host"}, extensions={"policy.template": template}, **fields)["id"])
        return made[-1]

    yield make
    for id in made:
        server.delete(id)


def policy_of(server, id):
    return server.client.get(f"/v1/sandboxes/{id}/networkpolicy").json()["policy"]


def test_a_template_is_enforced(server, create):
    id = create("web")
    assert policy_of(server, id) == {
        "egress": [{"action": "allow", "target": "*.example.com"}, {"action": "deny", "target": "93.184.216.35"}],
        "defaultAction": "deny"}
    assert reaches(server, id, ALLOWED)
    assert not reaches(server, id, OTHER)  # its address is denied
    assert not reaches(server, id, "a.wild.example.org")


def test_a_network_policy_narrows_the_template(server, create):
    id = create("web", networkPolicy={"egress": [{"action": "allow", "target": OTHER}]})
    assert policy_of(server, id)["egress"] == [{"action": "deny", "target": "93.184.216.35"},
                                               {"action": "allow", "target": OTHER}]
    assert not reaches(server, id, OTHER) and not reaches(server, id, ALLOWED)
    wide = server.post_sandbox(extensions={"policy.template": "web"},
                               networkPolicy={"egress": [{"action": "allow", "target": "a.wild.example.org"}]})
    assert wide.status_code == 400
    assert wide.json()["message"].startswith('/networkPolicy/egress/0/target: "a.wild.example.org" is more than')


def test_audit_mode_lets_pass_and_records(server, create, tmp_path):
    id = create("learn")
    assert reaches(server, id, ALLOWED) and reaches(server, id, "a.wild.example.org")
    for closed in ("private.example.com", "metadata.example.com", "169.254.169.254"):
        assert not reaches(server, id, closed), closed
    osb = Osb(server, tmp_path)
    told = osb.json("policy", "suggest", id, "--name", "learned")
    targets = [item["target"] for item in told["rules"]]
    assert {ALLOWED, "a.wild.example.org"} <= set(targets) or "*.example.com" in targets
    file = tmp_path / "learned.toml"
    file.write_text(osb.ok("policy", "suggest", id))
    assert osb.ok("policy", "test", file, ALLOWED) == "allow\n"
    assert osb.run("policy", "test", file, "unasked.example.net").returncode == 1


def test_osb_run_takes_a_template(server, tmp_path):
    osb = Osb(server, tmp_path)
    look_up = ["python3", "-c", "import socket, sys; print(socket.gethostbyname(sys.argv[1]))"]
    assert osb.ok("run", "--policy", "web", "host", "--", *look_up, ALLOWED) == "93.184.216.34\n"
    assert osb.run("run", "--policy", "web", "host", "--", *look_up, "a.wild.example.org").returncode != 0
    assert "did you mean web?" in osb.refused("run", "--policy", "wbe", "host", "--", "true")
