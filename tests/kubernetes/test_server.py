"""The server on a real cluster: from a create to a command's output, and what others do to its objects meanwhile."""

import httpx

from cluster import is_ready
from objects import pods, sandboxes, wait_gone
from server_process import Server

IMAGE = {"uri": "busybox:test"}


def test_a_sandbox_runs_commands_and_goes(cluster, server):
    made = server.create(image=IMAGE, env={"GREETING": "hello"}, metadata={"team": "red"})
    assert server.run(made["id"], "echo $GREETING from $(id -u)") == "hello from 0"
    endpoint = server.client.get(f"/v1/sandboxes/{made['id']}/endpoints/44772").json()
    assert endpoint["endpoint"] == cluster.direct_endpoint(made["id"], 44772)
    direct = httpx.get(f"http://{endpoint['endpoint']}/ping", headers=endpoint["headers"], trust_env=False)
    assert direct.status_code == 200
    assert httpx.get(f"http://{endpoint['endpoint']}/metrics", trust_env=False).status_code == 401, "execd asks for its token"
    pod = cluster.get(f"{pods(cluster.sandboxes)}/{made['id']}-0")
    assert pod["metadata"]["labels"]["team"] == "red"
    assert pod["spec"]["automountServiceAccountToken"] is False
    server.delete(made["id"])
    wait_gone(cluster, pods(cluster.sandboxes), f"{made['id']}-0")
    assert cluster.list() == []


def test_the_entrypoints_output_is_the_log(cluster, server):
    made = server.create(image=IMAGE, entrypoint=["sh", "-c", "echo out; echo $((6 * 7)); exec sleep 1000000"])
    answer = server.client.get(f"/v1/sandboxes/{made['id']}/diagnostics/logs", params={"scope": "container"})
    assert answer.status_code == 200, answer.text
    assert "42" in answer.text
    server.delete(made["id"])


def test_resources_are_the_pods(cluster, server):
    made = server.create(image=IMAGE, resourceLimits={"cpu": "200m", "memory": "64Mi"}, resourceRequests={"cpu": "50m"})
    container = cluster.get(f"{pods(cluster.sandboxes)}/{made['id']}-0")["spec"]["containers"][0]
    assert container["resources"]["limits"] == {"cpu": "200m", "memory": "64Mi"}
    assert container["resources"]["requests"]["cpu"] == "50m"
    server.delete(made["id"])


def test_causes_of_a_failed_create_are_told_and_nothing_stays(cluster, server):
    answer = server.post_sandbox(image={"uri": "127.0.0.1:1/nothing:1"})
    assert answer.status_code == 500 and answer.json()["code"] == "KUBERNETES::POD_FAILED", answer.text
    assert "127.0.0.1:1/nothing:1" in answer.json()["message"]
    answer = server.post_sandbox(image=IMAGE, entrypoint=["/no/such/program"])
    assert answer.status_code == 500 and answer.json()["code"] == "KUBERNETES::POD_FAILED", answer.text
    quotas = f"/api/v1/namespaces/{cluster.sandboxes}/resourcequotas"
    cluster.create(quotas, {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}})
    cluster.wait(quotas, "none", lambda each: each and each.get("status", {}).get("used"))
    hasty = Server(cluster, {"kubernetes": {"sandbox_create_timeout_seconds": 5}})
    answer = hasty.post_sandbox(image=IMAGE)
    hasty.close()
    cluster.delete(f"{quotas}/none")
    assert answer.status_code == 403 and answer.json()["code"] == "KUBERNETES::QUOTA_EXCEEDED", answer.text
    for pod in cluster.items(pods(cluster.sandboxes)):
        wait_gone(cluster, pods(cluster.sandboxes), pod["metadata"]["name"])
    assert cluster.items(sandboxes(cluster.sandboxes)) == []


def test_a_server_that_was_killed_takes_its_sandboxes_over(cluster, server):
    made = server.create(image=IMAGE)
    server.kill()
    server.start()
    assert server.state(made["id"]) == "Running"
    assert server.run(made["id"], "echo here") == "here"
    server.delete(made["id"])


def test_two_servers_share_the_cluster(cluster, server):
    other = Server(cluster)
    try:
        made = server.create(image=IMAGE, headers={"Idempotency-Key": "one-of-two"}, metadata={"shared": "yes"})
        same = other.post_sandbox(image=IMAGE, headers={"Idempotency-Key": "one-of-two"}, metadata={"shared": "yes"})
        assert same.json()["id"] == made["id"], same.text
        other.wait_state(made["id"], "Running")
        assert other.run(made["id"], "echo both") == "both"
        other.delete(made["id"])
        server.wait_state(made["id"], "deleted")
    finally:
        other.close()


def test_objects_changed_behind_the_server_are_told(cluster, server):
    made = server.create(image=IMAGE)
    cluster.delete(f"{sandboxes(cluster.sandboxes)}/{made['id']}")
    server.wait_state(made["id"], "deleted")
    made = server.create(image=IMAGE)
    old = cluster.get(f"{pods(cluster.sandboxes)}/{made['id']}-0")["metadata"]["uid"]
    cluster.delete(f"{pods(cluster.sandboxes)}/{made['id']}-0")
    cluster.wait(pods(cluster.sandboxes), f"{made['id']}-0", lambda each: each and each["metadata"]["uid"] != old and is_ready(each))
    server.delete(made["id"])


def test_an_expired_sandbox_goes(cluster, server):
    made = server.create(image=IMAGE, timeout=60)
    until = cluster.get(f"{sandboxes(cluster.sandboxes)}/{made['id']}")["spec"]["expireTime"]
    assert until.startswith(made["expiresAt"][:19])
    cluster.patch(f"{sandboxes(cluster.sandboxes)}/{made['id']}", {"spec": {"expireTime": made["createdAt"]}})
    server.wait_state(made["id"], "deleted")
    wait_gone(cluster, pods(cluster.sandboxes), f"{made['id']}-0")
