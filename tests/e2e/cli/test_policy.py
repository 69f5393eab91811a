"""osb policy: templates of the server, and files of this machine."""

import json
import pathlib

import pytest
from osb_program import Osb, osb_binary
from server_process import Server
from test_local import complete

EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "deploy" / "policies" / "examples"


@pytest.fixture
def osb(server, tmp_path):
    directory = tmp_path / "policies"
    directory.mkdir()
    for file in EXAMPLES.glob("*.toml"):
        (directory / file.name).write_text(file.read_text())
    own = Server(server.daemon, settings={"policies": {"directory": str(directory)}})
    yield Osb(own, tmp_path)
    own.close()


def test_templates_of_the_server(osb):
    listed = osb.json("policy", "list")
    assert [item["name"] for item in listed["items"]] == ["base", "learn", "python-agent"]
    table = osb.ok("policy", "list")
    assert "python-agent" in table and "audit" in table
    assert "files.pythonhosted.org" in osb.ok("policy", "list", "--capabilities")
    shown = osb.json("policy", "show", "python-agent")
    assert shown["extends"] == ["base"]
    text = osb.ok("policy", "show", "python-agent")
    assert "capability pypi, python-agent.toml:4:17" in text and "override, base.toml:7:3" in text
    assert "did you mean python-agent?" in osb.refused("policy", "show", "python-agnet")


def test_decisions_of_the_server(osb):
    assert osb.ok("policy", "explain", "python-agent", "gist.github.com") == (
        "deny gist.github.com: the rule deny gist.github.com decides: override of template base, base.toml:7:3\n")
    assert osb.json("policy", "explain", "python-agent", "pypi.org")["action"] == "allow"
    assert osb.ok("policy", "test", "python-agent", "pypi.org") == "allow\n"
    denied = osb.run("policy", "test", "python-agent", "example.com")
    assert (denied.returncode, denied.stdout, denied.stderr) == (1, b"deny\n", b"")
    quiet = osb.run("policy", "test", "-q", "python-agent", "169.254.169.254", "--port", "80")
    assert (quiet.returncode, quiet.stdout) == (1, b"")
    assert "audit mode" in osb.ok("policy", "explain", "learn", "pypi.org")
    osb.refused("policy", "test", "no-such", "pypi.org", code=3)
    osb.refused("policy", "test", "python-agent", "a b", code=3)
    osb.refused("policy", "test", "python-agent", "a.com", "--port", "0", code=2)


def test_files_need_no_server(tmp_path):
    class Nowhere:
        port, key = 1, "none"

    osb = Osb(Nowhere, tmp_path)
    file = EXAMPLES / "python-agent.toml"
    made = osb.json("policy", "compile", file)
    assert made["extends"] == ["base"] and made["rules"][0]["target"] == "gist.github.com"
    for each in EXAMPLES.glob("*.toml"):
        osb.ok("policy", "compile", each)
    osb.ok("policy", "test", file, "pypi.org")
    assert osb.run("policy", "test", file, "gist.github.com").returncode == 1
    assert "base.toml:7:3" in osb.ok("policy", "explain", file, "gist.github.com")
    wrong = tmp_path / "wrong.toml"
    wrong.write_text('description = "x"\ncapabilities = ["pipy"]\n')
    said = osb.refused("policy", "compile", wrong)
    assert f'{wrong}:2:17: capabilities: unknown capability "pipy"; did you mean pypi?' in said
    wrong.write_text('extends = "nothing"\n')
    assert f"{wrong}:1:11: extends: unknown template" in osb.refused("policy", "compile", wrong)
    osb.refused("policy", "compile", tmp_path / "missing.toml")
    (tmp_path / "catalogue.toml").write_text('[[capability]]\nname = "intranet"\nallow = ["*.corp.example"]\n')
    wrong.write_text('capabilities = ["intranet"]\n')
    osb.ok("policy", "test", wrong, "a.corp.example")


def test_the_server_compiles_a_file_with_its_own_templates(osb, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('extends = "python-agent"\n')
    assert "unknown template" in osb.refused("policy", "compile", file)
    assert osb.json("policy", "compile", "--server", file)["extends"] == ["python-agent", "base"]
    file.write_text('extends = "python-agnet"\n')
    assert f"{file}:1:11: extends: unknown template" in osb.refused("policy", "compile", "--server", file)


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_names_of_templates_are_completed(osb, tmp_path, shell):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "osb").symlink_to(osb_binary())
    path = f"{tmp_path / 'bin'}:/usr/bin:/bin"
    assert complete(osb, shell, "osb policy show py", path) == ["python-agent"]
    assert "learn" in complete(osb, shell, "osb run --policy le", path)


def test_problems_are_data_with_json(osb, tmp_path):
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("x = 1\n")
    done = osb.run("policy", "compile", wrong, "-o", "json")
    assert json.loads(done.stderr)["error"]["code"] == "POLICY::INVALID_TEMPLATE"
    done = osb.run("policy", "show", "nothing", "-o", "json")
    assert json.loads(done.stderr)["error"]["code"] == "POLICY::TEMPLATE_NOT_FOUND"


def enforces_policies(osb):
    features = osb.server.client.get("/v1/capabilities").json()["features"]
    return next(item["available"] for item in features if item["name"] == "networkPolicy")


@pytest.mark.parametrize("template", ["base", "learn"])
def test_a_template_is_suggested_from_what_a_sandbox_asked_for(osb, template):
    if not enforces_policies(osb):
        refused = osb.server.post_sandbox(extensions={"policy.template": template})
        assert refused.status_code == 400
        return
    id = osb.server.create(extensions={"policy.template": template})["id"]
    try:
        #  Nothing answers them here; that they were asked is what counts.
        ask = "import socket, sys\nfor name in sys.argv[1:]:\n  try: socket.gethostbyname(name)\n  except OSError: pass"
        osb.ok("exec", id, "--", "python3", "-c", ask, "pypi.org", "files.pythonhosted.org", "api.example.com")
        told = osb.json("policy", "suggest", id, "--name", "learned")
        assert [item["target"] for item in told["capabilities"]] == ["pypi"]
        assert [item["target"] for item in told["rules"]] == ["api.example.com"]
        text = osb.ok("policy", "suggest", id)
        assert text.startswith('name = "suggested"\ndefault_action = "deny"\n') and '"pypi",' in text
        file = pathlib.Path(osb.env["HOME"]) / "learned.toml"
        file.write_text(told["template"])
        assert osb.ok("policy", "test", file, "api.example.com") == "allow\n"
    finally:
        osb.server.delete(id)


def test_suggest_needs_a_network_policy(osb):
    id = osb.server.create()["id"]
    try:
        osb.refused("policy", "suggest", id)
    finally:
        osb.server.delete(id)
