"""Policy templates: /policies, their files, and creates that name one. Every answer is compared with specs/ as well."""

import signal

import pytest

BASE = '[overrides]\negress = [{action = "deny", target = "gist.github.com"}]\n'
PYTHON = 'description = "Python"\nextends = "base"\ncapabilities = ["pypi", "github"]\n'


@pytest.fixture
def templates(make_server, tmp_path):
    """A server with two templates: (server, directory)."""
    directory = tmp_path / "policies"
    directory.mkdir()
    (directory / "base.toml").write_text(BASE)
    (directory / "python.toml").write_text(PYTHON)
    return make_server(settings={"policies": {"directory": str(directory)}}), directory


def names(server):
    return [item["name"] for item in server.client.get("/v1/policies").json()["items"]]


def compiled(server, text, **fields):
    return server.client.post("/v1/policies/compile", json={"template": text, **fields})


def enforces(server):
    features = server.client.get("/v1/capabilities").json()["features"]
    return next(item for item in features if item["name"] == "networkPolicy")


def test_templates_are_shown_with_the_origin_of_every_rule(templates):
    server, _ = templates
    listed = server.client.get("/v1/policies").json()
    assert [item["name"] for item in listed["items"]] == ["base", "python"]
    assert "default" not in listed
    assert {"git", "pypi", "llm.anthropic"} <= {item["name"] for item in listed["capabilities"]}
    shown = server.client.get("/v1/policies/python").json()
    assert shown["extends"] == ["base"] and shown["mode"] == "enforce"
    first = shown["rules"][0]
    assert (first["action"], first["target"]) == ("deny", "gist.github.com")
    assert first["origin"] == {"kind": "override", "template": "base", "source": "base.toml", "line": 2, "column": 11}
    pypi = next(rule for rule in shown["rules"] if rule["target"] == "pypi.org")
    assert pypi["origin"] == {"kind": "capability", "template": "python", "capability": "pypi", "source": "python.toml",
                              "line": 3, "column": 17}
    assert len(shown["networkPolicy"]["egress"]) == shown["ruleCount"] == len(shown["rules"])
    assert server.client.get("/policies/python").json() == shown
    missing = server.client.get("/v1/policies/pyton")
    assert missing.status_code == 404
    assert missing.json() == {"code": "POLICY::TEMPLATE_NOT_FOUND",
                              "message": 'no policy template is called "pyton"; did you mean python?'}


def test_a_decision_is_explained(templates):
    server, _ = templates

    def explain(host, **query):
        return server.client.get("/v1/policies/python/explain", params={"host": host, **query})

    assert explain("PyPI.org.").json()["action"] == "allow"
    gist = explain("gist.github.com").json()
    assert gist["action"] == "deny"
    assert gist["because"] == "the rule deny gist.github.com decides: override of template base, base.toml:2:11"
    assert explain("example.com").json()["because"] == "no rule matches, and the default is deny"
    assert explain("169.254.169.254", port=80).json()["action"] == "deny"
    assert explain("a b").status_code == 400
    assert explain("").status_code == 422
    assert explain("a.com", port="x").status_code == 422
    assert explain("a.com", port=0).status_code == 422
    assert server.client.get("/v1/policies/none/explain", params={"host": "a"}).status_code == 404


def test_a_template_that_is_not_stored_is_compiled(templates):
    server, _ = templates
    made = compiled(server, 'name = "x"\nextends = "python"\nmode = "audit"\n', host="pypi.org", port=443).json()
    assert made["extends"] == ["python", "base"] and made["mode"] == "audit"
    assert made["explanation"]["action"] == "allow"
    assert names(server) == ["base", "python"]


WRONG = [
    ('capabilities = ["pipy"]', 400, 'mine.toml:1:17: capabilities: unknown capability "pipy"; did you mean pypi?'),
    ('extends = "pyton"', 400, 'mine.toml:1:11: extends: unknown template "pyton"; did you mean python?'),
    ('name = "base"\nextends = "python"', 400, "python.toml:2:11: extends: template python extends itself through base"),
    ('name = "x"\nextends = "x"', 400, "mine.toml:2:11: extends: template x extends itself through x"),
    ("capabilites = []", 400, 'mine.toml:1:1: unknown key "capabilites"; did you mean capabilities?'),
    ("capabilities = 1", 400, "mine.toml:1:16: capabilities: expected an array of names of capabilities"),
    ('mode = "learn"', 400, 'mine.toml:1:8: mode: "learn" is neither enforce nor audit'),
    ("[overrides]\negress = [{action = 'allow', target = '*'}]", 400, "mine.toml:2:39: target: \"*\": "),
    ("[overrides]\negress = [{action = 'allow', target = 'a.com', ports = [1]}]", 400, "mine.toml:2:56: ports: only allowed"),
    ("name = 'A B'", 400, "mine.toml:1:8: name: "),
    ("[{a]", 400, "mine.toml:1:2: not valid TOML: "),  # the library asserts on it
    ("a = = 1", 400, "mine.toml:1:5: not valid TOML: "),
    ("a" + ".a" * 3000 + " = 1", 400, "mine.toml:1:1: the line has more than 4096 bytes"),
    ("#" * 4000 + "\n" + ("#" * 4000 + "\n") * 300, 413, "mine.toml: larger than 1 MiB"),
    ("[overrides]\negress = [\n" + "".join(f"{{action='allow', target='h{i}.example'}},\n" for i in range(5000)) + "]",
     413, "mine.toml: template unnamed has 5000 rules, at most 4096 are allowed"),
]


def test_wrong_templates_are_refused_with_their_place(templates):
    server, _ = templates
    for text, status, message in WRONG:
        refused = compiled(server, text, source="mine.toml")
        assert (refused.status_code, refused.json()["code"]) == (status, "POLICY::INVALID_TEMPLATE"), text[:80]
        assert refused.json()["message"].startswith(message)


def test_bodies_of_the_wrong_shape_are_422(templates):
    server, _ = templates
    for path, body in (("compile", {}), ("compile", {"template": 1}), ("compile", []), ("compile", {"template": "", "port": 0}),
                       ("suggest", {}), ("suggest", {"asked": "a"}), ("suggest", {"asked": [{}]}),
                       ("suggest", {"asked": [{"host": "a", "count": -1}]}), ("suggest", {"asked": [], "name": "A"})):
        assert server.client.post(f"/v1/policies/{path}", json=body).status_code == 422, (path, body)


def test_the_smallest_template_is_suggested(templates):
    server, _ = templates
    told = server.client.post("/v1/policies/suggest", json={"name": "learned", "asked": [
        {"host": "pypi.org", "count": 3}, {"host": "files.pythonhosted.org"}, {"host": "api.example.com"},
        {"host": "169.254.169.254"}]}).json()
    assert told["capabilities"] == [{"target": "pypi", "count": 4}]
    assert told["rules"] == [{"target": "api.example.com", "count": 1}]
    assert told["leftOut"] == [{"target": "169.254.169.254", "count": 1}]
    again = compiled(server, told["template"], host="pypi.org").json()
    assert again["name"] == "learned" and again["explanation"]["action"] == "allow"


def test_changed_files_are_read_again_and_wrong_ones_change_nothing(templates):
    server, directory = templates
    with server.saying("policy templates reloaded"):
        (directory / "node.toml").write_text('capabilities = ["npm"]\n')
    assert names(server) == ["base", "node", "python"]
    with server.saying("policy templates not reloaded, the old ones stay") as said:
        (directory / "node.toml").write_text('capabilities = ["nmp"]\n')
    assert 'node.toml:1:17: capabilities: unknown capability' in said[-1]
    assert server.client.get("/v1/policies/node").json()["capabilities"] == ["npm"]
    with server.saying("policy templates reloaded"):
        (directory / "node.toml").unlink()
    assert names(server) == ["base", "python"]
    with server.saying("policy templates reloaded"):
        (directory / "catalogue.toml").write_text('[[capability]]\nname = "intranet"\nallow = ["*.corp.example"]\n')
    assert compiled(server, 'capabilities = ["intranet"]').status_code == 200


def test_sighup_reads_the_directory_and_the_default(templates, tmp_path):
    server, directory = templates
    server.config.write_text(server.config.read_text() + 'default = "python"\n')
    with server.saying("settings reloaded") as said:
        server.process.send_signal(signal.SIGHUP)
    assert "[policies] default" in said[-1]
    assert server.client.get("/v1/policies").json()["default"] == "python"
    #  A default that does not exist is refused as a whole.
    server.config.write_text(server.config.read_text().replace('"python"', '"pyton"'))
    with server.saying("settings not reloaded") as said:
        server.process.send_signal(signal.SIGHUP)
    assert "has no template pyton" in said[-1]
    assert server.client.get("/v1/policies").json()["default"] == "python"
    #  The default template cannot be removed while it is in use.
    with server.saying("policy templates not reloaded"):
        (directory / "python.toml").unlink()
    assert names(server) == ["base", "python"]


def test_a_server_does_not_start_with_a_wrong_template(make_server, tmp_path):
    (tmp_path / "a.toml").write_text("x = 1\n")
    with pytest.raises(RuntimeError) as ended:
        make_server(settings={"policies": {"directory": str(tmp_path)}})
    assert "a.toml:1:1: unknown key" in str(ended.value)


def test_creates_name_a_template(templates):
    server, _ = templates
    unknown = server.post_sandbox(extensions={"policy.template": "pyton"})
    assert unknown.status_code == 400
    assert unknown.json()["message"] == ('/extensions/policy.template: no policy template is called "pyton"; did you mean '
                                         'python?')
    refused = server.post_sandbox(extensions={"policy.mode": "audit"})
    assert refused.status_code == 400 and refused.json()["message"].startswith("/extensions/policy.mode: ")
    feature = enforces(server)
    answer = server.post_sandbox(extensions={"policy.template": "python"})
    if not feature["available"]:
        assert answer.status_code == 400
        assert answer.json()["message"] == f"/extensions/policy.template: {feature['reason']}"
        return
    assert answer.status_code == 202, answer.text
    wide = server.post_sandbox(extensions={"policy.template": "python"},
                               networkPolicy={"egress": [{"action": "allow", "target": "example.com"}]})
    assert wide.status_code == 400
    assert wide.json()["message"].startswith('/networkPolicy/egress/0/target: "example.com" is more than')
    narrow = server.post_sandbox(extensions={"policy.template": "python"},
                                 networkPolicy={"egress": [{"action": "allow", "target": "pypi.org"}]})
    assert narrow.status_code == 202, narrow.text
    policy = server.client.get(f"/v1/sandboxes/{narrow.json()['id']}/networkpolicy").json()["policy"]
    assert policy["egress"] == [{"action": "allow", "target": "pypi.org"}]
    server.remove_all()


def test_the_default_template_is_for_creates_that_name_none(make_server, tmp_path):
    (tmp_path / "closed.toml").write_text("")
    server = make_server(settings={"policies": {"directory": str(tmp_path), "default": "closed"}})
    answer = server.post_sandbox()
    if not enforces(server)["available"]:
        assert answer.status_code == 400
        assert "the server's default policy template closed cannot be enforced" in answer.json()["message"]
        return
    assert answer.status_code == 202, answer.text
    policy = server.client.get(f"/v1/sandboxes/{answer.json()['id']}/networkpolicy").json()["policy"]
    assert policy == {"egress": [], "defaultAction": "deny"}
    server.remove_all()
