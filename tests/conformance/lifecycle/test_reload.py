"""SIGHUP: settings are read again without ending anything."""

import json
import signal

import httpx


def reload(server, change, until="settings reloaded"):
    """Gives it another file; returns the line that says what became of it."""
    server.config.write_text(change(server.config.read_text()))
    with server.saying(until) as said:
        server.process.send_signal(signal.SIGHUP)
    return said[-1]


def status(server, key):
    return httpx.get(f"{server.url}/v1/sandboxes", headers={"OPEN-SANDBOX-API-KEY": key}, trust_env=False).status_code


def test_another_key(make_server):
    server = make_server()
    id = server.create()["id"]
    line = reload(server, lambda text: text.replace(server.key, "another-key"))
    assert "[server] api_key" in line and "another-key" not in line
    assert (status(server, server.key), status(server, "another-key")) == (401, 200)
    server.client.headers["OPEN-SANDBOX-API-KEY"] = "another-key"
    assert server.run(id, "echo still here") == "still here"
    server.remove_all()


def test_other_limits_and_logs(make_server, tmp_path):
    server = make_server()
    first = server.create()["id"]
    audit = tmp_path / "audit.jsonl"
    reload(server, lambda text: text.replace("[server]", "[server]\nmax_sandbox_timeout_seconds = 120")
           + f'[admission]\nmax_sandboxes = 1\n[log]\nlevel = "debug"\naudit_file_path = {json.dumps(str(audit))}\n')
    refused = server.post_sandbox()
    assert (refused.status_code, refused.json()["code"]) == (429, "SANDBOX::CAPACITY_EXCEEDED")
    server.delete(first)
    assert server.post_sandbox(timeout=121).status_code == 400
    with server.saying("http request"):  # written at level debug
        server.create(timeout=120)
    assert [json.loads(line)["action"] for line in audit.read_text().splitlines()] == ["create", "delete", "create",
                                                                                      "create"]
    server.remove_all()


def test_keys_that_need_a_restart_are_named(make_server):
    server = make_server()
    line = reload(server, lambda text: text.replace(f"port = {server.port}", "port = 1").replace("server.db", "other.db"),
                  until="need a restart")
    assert "[server] port" in line and "[store]" in line
    assert status(server, server.key) == 200


def test_a_broken_file_changes_nothing(make_server):
    server = make_server()
    whole = server.config.read_text()
    for broken in ("[server\n", whole.replace(f"port = {server.port}", 'port = "x"'),
                   whole.replace(server.key, ""),  # a server without a key needs a confirmation
                   whole.replace(server.key, "new") + "[log]\naudit_file_path = '/proc/none/audit'\n",
                   whole.replace(server.key, "new") + "[log]\nlevel = 'loud'\n"):
        line = reload(server, lambda _: broken, until="not reloaded")
        assert "error=" in line
        assert (status(server, server.key), status(server, "new"), status(server, "")) == (200, 401, 401)
    server.config.unlink()
    with server.saying("not reloaded"):
        server.process.send_signal(signal.SIGHUP)
    assert status(server, server.key) == 200
