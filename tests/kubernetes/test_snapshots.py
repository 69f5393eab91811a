"""Pause, resume and snapshots on a real cluster: image-committer runs as a job on the node, with the controller's rights."""

import base64
import json

import pytest

from cluster import GROUP, is_ready
from objects import make_pool, make_sandbox, pods, sandboxes, template, wait_gone, wait_phase, wait_pool
from registry import PASSWORD, USER

IMAGE = {"uri": "busybox:test"}


def add_secret(cluster, ns, registry, password=PASSWORD):
    config = json.dumps({"auths": {registry.host: {"username": USER, "password": password}}})
    cluster.create(f"/api/v1/namespaces/{ns}/secrets", {
        "metadata": {"name": "registry"}, "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": base64.b64encode(config.encode()).decode()}})


def snapshots(ns):
    return f"{GROUP}/namespaces/{ns}/sandboxsnapshots"


def forget_images(cluster, registry):
    """The node does not have the registry's images any longer."""
    for line in cluster.ctr(["images", "ls"]).decode().splitlines()[1:]:
        if line.startswith(registry.host):
            cluster.ctr(["images", "rm", "--sync", line.split()[0]])


def pause(cluster, ns, name, wanted):
    cluster.patch(f"{sandboxes(ns)}/{name}", {"spec": {"pause": wanted}})
    return wait_phase(cluster, ns, name, "Paused" if wanted else "Succeed")


def digest_in(registry, image):
    repository, tag = image.removeprefix(f"{registry.host}/").split(":")
    answer = registry.client.get(f"/v2/{repository}/manifests/{tag}",
                                 headers={"Accept": "application/vnd.oci.image.manifest.v1+json"})
    return answer.raise_for_status().headers["Docker-Content-Digest"]


@pytest.fixture
def saving(cluster, controller, ns, registry):
    """A namespace whose sandboxes can be saved."""
    add_secret(cluster, ns, registry)
    return ns


def test_a_paused_sandbox_comes_back_with_its_files_and_can_be_paused_again(cluster, saving, registry):
    make_sandbox(cluster, saving, "a", template=template())
    wait_phase(cluster, saving, "a", "Succeed")
    for generation in ("one", "two"):
        cluster.exec(saving, "a-0", ["sh", "-c", f"echo {generation} >> /kept; rm -f /etc/group"])
        pause(cluster, saving, "a", True)
        wait_gone(cluster, pods(saving), "a-0")
        forget_images(cluster, registry)
        pause(cluster, saving, "a", False)
        pod = cluster.wait(pods(saving), "a-0", is_ready)
        assert pod["spec"]["containers"][0]["image"].startswith(f"{registry.host}/snaps/a-sandbox:snap-gen")
    assert cluster.exec(saving, "a-0", ["cat", "/kept"]) == "one\ntwo\n"
    assert "group" not in cluster.exec(saving, "a-0", ["ls", "/etc"]).split()
    cluster.delete(f"{sandboxes(saving)}/a")
    wait_gone(cluster, pods(saving), "a-0")


def test_a_snapshot_is_an_image_in_the_registry_and_its_sandbox_goes_on(cluster, saving, registry):
    make_sandbox(cluster, saving, "a", template=template())
    wait_phase(cluster, saving, "a", "Succeed")
    before = cluster.get(f"{pods(saving)}/a-0")["status"]["containerStatuses"][0]
    cluster.exec(saving, "a-0", ["sh", "-c", "echo saved > /kept"])
    cluster.create(snapshots(saving), {"apiVersion": "sandbox.opensandbox.io/v1alpha1", "kind": "SandboxSnapshot",
                                       "metadata": {"name": "s"}, "spec": {"sandboxName": "a"}})
    done = cluster.wait(snapshots(saving), "s", lambda each: each.get("status", {}).get("phase") in ("Succeed", "Failed"))
    assert done["status"]["phase"] == "Succeed", done["status"]
    saved = done["status"]["containers"][0]
    assert saved["containerName"] == "sandbox" and saved["imageDigest"] == digest_in(registry, saved["imageUri"])
    after = cluster.get(f"{pods(saving)}/a-0")["status"]["containerStatuses"][0]
    assert (after["containerID"], after["restartCount"]) == (before["containerID"], 0)
    assert cluster.exec(saving, "a-0", ["cat", "/kept"]) == "saved\n", "it runs"
    make_sandbox(cluster, saving, "b", template=template(saved["imageUri"]))
    wait_phase(cluster, saving, "b", "Succeed")
    assert cluster.exec(saving, "b-0", ["cat", "/kept"]) == "saved\n"
    cluster.delete(f"{snapshots(saving)}/s")
    wait_gone(cluster, snapshots(saving), "s")
    wait_gone(cluster, f"/apis/batch/v1/namespaces/{saving}/jobs", "s-commit")


def test_a_pooled_sandbox_is_paused_and_leaves_its_pool(cluster, saving):
    make_pool(cluster, saving, "p", 1, 2)
    wait_pool(cluster, saving, "p", available=1)
    make_sandbox(cluster, saving, "a", poolRef="p")
    sandbox = wait_phase(cluster, saving, "a", "Succeed")
    pod = json.loads(sandbox["metadata"]["annotations"]["sandbox.opensandbox.io/alloc-status"])["pods"][0]
    cluster.exec(saving, pod, ["sh", "-c", "echo mine > /kept"])
    pause(cluster, saving, "a", True)
    wait_gone(cluster, pods(saving), pod)
    pause(cluster, saving, "a", False)
    assert cluster.exec(saving, "a-0", ["cat", "/kept"]) == "mine\n"


def test_a_push_that_is_refused_is_told_and_tried_again(cluster, controller, ns, registry):
    add_secret(cluster, ns, registry, password="guess")
    make_sandbox(cluster, ns, "a", template=template())
    wait_phase(cluster, ns, "a", "Succeed")
    cluster.patch(f"{sandboxes(ns)}/a", {"spec": {"pause": True}})
    cluster.wait(f"/apis/batch/v1/namespaces/{ns}/jobs", "a-pause-commit", lambda job: job and job.get("status", {}).get("failed"))
    failed = cluster.items(pods(ns), labelSelector="job-name=a-pause-commit")
    messages = [each["status"]["containerStatuses"][0]["state"].get("terminated", {}).get("message", "") for each in failed
                if each["status"].get("containerStatuses")]
    assert any("the registry wants (other) credentials" in each for each in messages), failed
    assert cluster.exec(ns, "a-0", ["echo", "alive"]) == "alive\n"
    cluster.delete(f"/api/v1/namespaces/{ns}/secrets/registry")
    add_secret(cluster, ns, registry)
    wait_phase(cluster, ns, "a", "Paused")


def test_the_server_pauses_resumes_and_saves(cluster, server, registry):
    add_secret(cluster, cluster.sandboxes, registry)
    made = server.create(image=IMAGE)
    server.run(made["id"], "echo first > /root/kept")
    assert server.client.post(f"/v1/sandboxes/{made['id']}/pause").status_code == 202
    server.wait_state(made["id"], "Paused")
    assert server.client.post(f"/v1/sandboxes/{made['id']}/resume").status_code == 202
    server.wait_state(made["id"], "Running")
    assert server.run(made["id"], "cat /root/kept") == "first"
    answer = server.client.post(f"/v1/sandboxes/{made['id']}/snapshots", json={"name": "from-tests"})
    assert answer.status_code == 202, answer.text
    id = answer.json()["id"]
    while (state := server.client.get(f"/v1/snapshots/{id}").json()["status"]["state"]) == "Creating":
        pass
    assert state == "Ready"
    server.run(made["id"], "echo second > /root/kept")
    restored = server.create(snapshotId=id, image=..., entrypoint=...)
    assert server.run(restored["id"], "cat /root/kept") == "first"
    for each in (made, restored):
        server.delete(each["id"])
    assert server.client.delete(f"/v1/snapshots/{id}").status_code == 204
