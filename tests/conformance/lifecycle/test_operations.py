"""For operators of the server: metrics and the audit log."""

import json
import re

import httpx


def scrape(server):
    response = server.client.get("/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    values = {}
    for line in response.text.splitlines():
        if line.startswith("#"):
            continue
        match = re.fullmatch(r'([a-z_]+(?:\{(?:[a-z]+="[^"]*",?)+\})?) ([0-9.e+-]+)', line)
        assert match, line
        assert match[1] not in values, line
        values[match[1]] = float(match[2])
    return values


def test_metrics(make_server):
    server = make_server()
    before = scrape(server)
    made = server.create()
    server.run(made["id"], "echo " + "x" * 5000)
    assert server.get("unknown").status_code == 404
    after = scrape(server)

    def grew(name):
        return after[name] - before.get(name, 0)

    assert grew('opensandbox_http_requests_total{route="/sandboxes",method="POST",status="202"}') == 1
    assert grew('opensandbox_http_requests_total{route="/sandboxes/{id}",method="GET",status="404"}') == 1
    for stage in ("store", "queue", "backend"):
        assert grew(f'opensandbox_create_stage_seconds_count{{stage="{stage}"}}') == 1
    assert after['opensandbox_create_stage_seconds_sum{stage="backend"}'] > 0
    assert after['opensandbox_sandboxes{state="Running"}'] == 1
    assert after["opensandbox_creates_waiting"] == after["opensandbox_creates_running"] == 0
    assert after["opensandbox_backend_reachable"] == 1
    assert grew('opensandbox_proxy_bytes_total{direction="received"}') > 5000
    assert grew('opensandbox_proxy_bytes_total{direction="sent"}') > 5000
    server.delete(made["id"])


def test_metrics_need_the_key(server):
    def status(path, **headers):
        return httpx.get(f"{server.url}{path}", headers=headers, trust_env=False).status_code

    assert status("/metrics") == 401
    assert status("/metrics", Authorization="Bearer wrong") == 401
    assert status("/metrics", Authorization=f"Bearer {server.key}") == 200
    assert status("/v1/sandboxes", Authorization=f"Bearer {server.key}") == 401


def test_audit_log(make_server, tmp_path):
    path = tmp_path / "logs" / "audit.jsonl"
    server = make_server(settings={"log": {"audit_file_path": str(path)}})
    made = server.client.post("/v1/sandboxes", params={"wait": 20}, headers={"X-Request-ID": "mine"}, json={
        "image": {"uri": "host"}, "entrypoint": ["sleep", "infinity"], "resourceLimits": {}, "timeout": 600,
        "env": {"PASSWORD": "do-not-tell"}})
    assert made.status_code == 202, made.text
    id = made.json()["id"]
    token = server.token(id)
    server.run(id, "echo do-not-tell")
    refused = httpx.post(f"{server.url}/sandboxes/{id}/proxy/44772/command", json={"command": "true"}, trust_env=False)
    assert refused.status_code == 401
    for action in ("pause", "resume"):
        assert server.client.post(f"/v1/sandboxes/{id}/{action}").status_code == 202
        server.wait_state(id, "Paused" if action == "pause" else "Running")
    server.delete(id)
    assert server.client.delete(f"/v1/sandboxes/{id}").status_code == 404
    # without the key: refused, so not in the audit log
    httpx.delete(f"{server.url}/v1/sandboxes/{id}", trust_env=False)

    text = path.read_text()
    entries = [json.loads(line) for line in text.splitlines()]
    assert [(e["action"], e["status"]) for e in entries] == [
        ("create", 202), ("exec", 200), ("pause", 202), ("resume", 202), ("delete", 204), ("delete", 404)]
    assert {e["sandbox"] for e in entries} == {id}
    assert entries[0]["request_id"] == "mine"
    assert entries[1]["key"] == "execd-token"
    assert re.fullmatch("[0-9a-f]{12}", entries[0]["key"])
    assert entries[0]["key"] == entries[4]["key"]
    assert entries[5]["code"].endswith("SANDBOX_NOT_FOUND")
    for secret in (server.key, "do-not-tell", *token.values()):
        assert secret not in text
    assert path.stat().st_mode & 0o007 == 0
