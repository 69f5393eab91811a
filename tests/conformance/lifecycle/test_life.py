"""A sandbox from its first to its last moment, through the lifecycle API."""

import datetime
import time

import httpx
import pytest


def test_create_run_delete(server):
    response = server.post_sandbox(metadata={"team": "a"}, timeout=600)
    assert response.status_code == 202
    made = response.json()
    assert made["status"]["state"] == "Running"
    assert made["metadata"] == {"team": "a"}
    assert made["entrypoint"] == ["tail", "-f", "/dev/null"]
    assert "image" not in made
    shown = server.get(made["id"]).json()
    assert shown["image"] == {"uri": "host"}
    assert shown["expiresAt"] == made["expiresAt"]
    assert server.run(made["id"], "echo $((6*7)); id -u") == "42\n0"
    server.delete(made["id"])
    assert server.get(made["id"]).status_code == 404
    assert server.get(made["id"]).json()["code"] == "NATIVE::SANDBOX_NOT_FOUND"
    assert server.client.delete(f"/v1/sandboxes/{made['id']}").status_code == 404
    assert server.daemon.list() == []
