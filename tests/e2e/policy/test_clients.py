"""The policy calls of the official clients, and of ours: what they say is what the sandbox then reaches."""

import json
import os
import pathlib
import subprocess

import pytest
from node_suite import run_node_suite
from opensandbox import SandboxSync
from opensandbox.config.connection_sync import ConnectionConfigSync
from opensandbox.models.sandboxes import NetworkPolicy, NetworkRule

HERE = pathlib.Path(__file__).resolve().parent
ALLOWED, OTHER = "allowed.example.com", "other.example.com"
POLICY = {"defaultAction": "deny", "egress": [{"action": "allow", "target": ALLOWED}]}
# "yes" or "no": whether a web server of that name answers.
REACH = """python3 -c 'import sys, urllib.request
try: print("yes" if urllib.request.urlopen("http://" + sys.argv[1], timeout=30).status == 200 else "no")
except OSError: print("no")' """


def reaches(server, id, name):
    said = server.run(id, REACH + name)
    assert said in ("yes", "no"), said
    return said == "yes"


@pytest.fixture
def sandbox(server):
    made = server.create(image={"uri": "host"}, networkPolicy=POLICY)["id"]
    yield made
    server.delete(made)


@pytest.mark.parametrize("proxied", [False, True], ids=["direct", "proxy"])
def test_the_python_sdk(server, proxied):
    config = ConnectionConfigSync(domain=f"127.0.0.1:{server.port}", api_key=server.key, use_server_proxy=proxied)
    policy = NetworkPolicy(default_action="deny", egress=[NetworkRule(action="allow", target=ALLOWED)])
    made = SandboxSync.create("host", connection_config=config, network_policy=policy)
    try:
        got = made.get_egress_policy()
        assert [(rule.action, rule.target) for rule in got.egress] == [("allow", ALLOWED)]
        assert (reaches(server, made.id, ALLOWED), reaches(server, made.id, OTHER)) == (True, False)
        made.patch_egress_rules([NetworkRule(action="allow", target=OTHER), NetworkRule(action="deny", target=ALLOWED)])
        assert [(rule.action, rule.target) for rule in made.get_egress_policy().egress] == [("allow", OTHER),
                                                                                             ("deny", ALLOWED)]
        assert (reaches(server, made.id, ALLOWED), reaches(server, made.id, OTHER)) == (False, True)
        made.delete_egress_rules([OTHER, "unknown.example.com"])
        assert not reaches(server, made.id, OTHER)
    finally:
        made.kill()
        made.close()


@pytest.mark.parametrize("proxied", [False, True], ids=["direct", "proxy"])
def test_the_javascript_sdk(server, proxied):
    environment = {
        **{name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")},
        "SERVER_DOMAIN": f"127.0.0.1:{server.port}", "SERVER_KEY": server.key, "SERVER_PROXY": "1" if proxied else "",
        "REACH": REACH,
    }
    run_node_suite(HERE / "policy.test.mjs", environment, server.directory, server.log)


def command_line(server, program, *words):
    environment = {"PATH": os.environ["PATH"], "HOME": str(server.directory), "NO_COLOR": "1",
                   "OPEN_SANDBOX_DOMAIN": f"127.0.0.1:{server.port}", "OPEN_SANDBOX_API_KEY": server.key}
    done = subprocess.run([*program, *words], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


OURS = [os.environ.get("OSB_BINARY", "osb")]
ORIGINAL = [str(pathlib.Path(os.sys.executable).parent / "osb")]


@pytest.mark.parametrize("program", [ORIGINAL, OURS], ids=["original", "ours"])
def test_the_command_lines(server, sandbox, program):
    got = json.loads(command_line(server, program, "egress", "get", sandbox, "-o", "json"))
    assert got == {"default_action": "deny", "egress": [{"action": "allow", "target": ALLOWED}]}
    command_line(server, program, "egress", "patch", sandbox, "--rule", f"allow={OTHER}", "-o", "json")
    assert reaches(server, sandbox, OTHER)


def test_the_rest_of_osb(server, sandbox, tmp_path):
    def osb(*words):
        return command_line(server, OURS, *words)

    assert not reaches(server, sandbox, OTHER)
    (tmp_path / "policy.json").write_text(json.dumps({"egress": [{"action": "allow", "target": OTHER}]}))
    osb("egress", "set", sandbox, "--file", str(tmp_path / "policy.json"))
    assert (reaches(server, sandbox, ALLOWED), reaches(server, sandbox, OTHER)) == (False, True)
    osb("egress", "delete", sandbox, OTHER)
    assert not reaches(server, sandbox, OTHER)
    denied = json.loads(osb("egress", "log", sandbox, "--denied", "-o", "json"))
    assert {OTHER, ALLOWED} <= {each["name"] for each in denied} and {each["verdict"] for each in denied} == {"deny"}
    assert osb("run", "--allow", ALLOWED, "host", "sh", "-c", REACH + ALLOWED).strip() == "yes"
    assert osb("run", "--allow", ALLOWED, "host", "sh", "-c", REACH + OTHER).strip() == "no"
    assert osb("run", "--deny-all", "host", "sh", "-c", REACH + ALLOWED).strip() == "no"


def test_osb_follows_the_log(server, sandbox):
    environment = {"PATH": os.environ["PATH"], "HOME": str(server.directory),
                   "OPEN_SANDBOX_DOMAIN": f"127.0.0.1:{server.port}", "OPEN_SANDBOX_API_KEY": server.key}
    following = subprocess.Popen([*OURS, "egress", "log", "-f", sandbox, "-o", "json"], env=environment,
                                 stdout=subprocess.PIPE, text=True)
    try:
        reaches(server, sandbox, OTHER)
        for line in following.stdout:
            said = json.loads(line)
            if said["name"] == OTHER:
                assert said["verdict"] == "deny" and said["rule"] == "default"
                break
        else:
            raise AssertionError("the stream ended")
    finally:
        following.terminate()
        following.wait(30)
        following.stdout.close()


def test_the_servers_routes(server, sandbox):
    path = f"/v1/sandboxes/{sandbox}/networkpolicy"
    assert server.client.get(path).json()["policy"] == {"egress": POLICY["egress"], "defaultAction": "deny"}
    assert server.client.put(path, json={"defaultAction": "allow"}).json()["mode"] == "allow_all"
    assert reaches(server, sandbox, OTHER)
    assert server.client.put(path, json={}).json()["mode"] == "deny_all"
    assert not reaches(server, sandbox, OTHER)
    refused = server.client.patch(path, json=[{"action": "allow", "target": "*"}])
    assert refused.status_code == 400
    assert server.client.patch(path, json=[]).status_code == 400
    assert server.client.get(path).json()["mode"] == "deny_all"


def test_the_token_does_not_enter_the_sandbox(server, sandbox):
    endpoint = server.client.get(f"/v1/sandboxes/{sandbox}/endpoints/18080").json()
    token = endpoint["headers"]["OPENSANDBOX-EGRESS-AUTH"]
    assert len(token) == 32 and endpoint["endpoint"].endswith("/proxy/18080")
    assert token not in server.run(sandbox, "cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'")
    for headers in ({}, {"OPENSANDBOX-EGRESS-AUTH": "x" * 32}):
        answer = server.client.get(f"/v1/sandboxes/{sandbox}/proxy/18080/policy", headers=headers)
        assert answer.status_code == 401, answer.text
