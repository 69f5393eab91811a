"""opensandbox-controller on a real cluster, with real pods."""

import datetime

import httpx
import pytest

from cluster import is_ready
from objects import (addresses, check_allocation, executor_template, held, make_pool, make_sandbox, pods, pools, sandboxes, template,
                     wait_gone, wait_phase, wait_pool)

pytestmark = pytest.mark.usefixtures("controller")


def expiring(seconds):
    until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
    return until.strftime("%Y-%m-%dT%H:%M:%SZ")


def reason_of(sandbox):
    return {each["type"]: each["reason"] for each in (sandbox or {}).get("status", {}).get("conditions", [])}


def test_a_sandbox_runs_and_goes_with_its_pods(cluster, ns):
    make_sandbox(cluster, ns, "a", replicas=2, template=template(), shardPatches=[
        {"metadata": {"labels": {"shard": "zero"}}}, {"spec": {"containers": [{"name": "sandbox", "env": [{"name": "N", "value": "1"}]}]}}])
    ready = cluster.wait(sandboxes(ns), "a", lambda each: each and each.get("status", {}).get("ready") == 2)
    first, second = (cluster.get(f"{pods(ns)}/a-{i}") for i in range(2))
    assert first["metadata"]["labels"]["shard"] == "zero"
    assert second["spec"]["containers"][0]["env"] == [{"name": "N", "value": "1"}]
    wanted = [first["status"]["podIP"], second["status"]["podIP"]]
    cluster.wait(sandboxes(ns), "a", lambda each: addresses(each) == wanted)
    assert ready["status"]["phase"] == "Succeed" and reason_of(ready)["Ready"] == "PodsReady"
    cluster.delete(f"{sandboxes(ns)}/a")
    for name in ("a-0", "a-1"):
        wait_gone(cluster, pods(ns), name)
    assert cluster.get(f"{sandboxes(ns)}/a") is None


def test_a_deleted_pod_comes_again(cluster, ns):
    make_sandbox(cluster, ns, "a", template=template())
    wait_phase(cluster, ns, "a", "Succeed")
    old = cluster.get(f"{pods(ns)}/a-0")["metadata"]["uid"]
    cluster.delete(f"{pods(ns)}/a-0")
    pod = cluster.wait(pods(ns), "a-0", lambda each: each and each["metadata"]["uid"] != old and is_ready(each))
    cluster.wait(sandboxes(ns), "a", lambda each: addresses(each) == [pod["status"]["podIP"]])


def test_an_expired_sandbox_is_deleted_with_its_pod(cluster, ns):
    make_sandbox(cluster, ns, "a", template=template(), expireTime=expiring(20))
    wait_phase(cluster, ns, "a", "Succeed")
    until = expiring(5)
    cluster.patch(f"{sandboxes(ns)}/a", {"spec": {"expireTime": until}})
    wait_gone(cluster, sandboxes(ns), "a")
    assert expiring(0) >= until, "not before its time"
    wait_gone(cluster, pods(ns), "a-0")


def test_causes_of_a_wait_are_named(cluster, ns):
    make_sandbox(cluster, ns, "image", template=template("127.0.0.1:1/nothing:1"))
    failed = wait_phase(cluster, ns, "image", "Failed")
    assert reason_of(failed)["PodFailed"] in ("ErrImagePull", "ImagePullBackOff"), failed
    make_sandbox(cluster, ns, "node", template=template(nodeSelector={"no": "such"}))
    cluster.wait(sandboxes(ns), "node", lambda each: each and "node" in str(each.get("status", {}).get("conditions")))
    make_sandbox(cluster, ns, "nonsense", template={"spec": {"containers": "none"}})
    cluster.wait(sandboxes(ns), "nonsense", lambda each: reason_of(each).get("PodFailed") == "InvalidTemplate"
                 or "containers" in str((each or {}).get("status")))
    cluster.create(f"/api/v1/namespaces/{ns}/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}})
    cluster.wait(f"/api/v1/namespaces/{ns}/resourcequotas", "q", lambda each: each and each.get("status", {}).get("used"))
    make_sandbox(cluster, ns, "quota", template=template())
    cluster.wait(sandboxes(ns), "quota", lambda each: each and "quota" in str(each.get("status", {}).get("conditions")))
    cluster.delete(f"/api/v1/namespaces/{ns}/resourcequotas/q")
    wait_phase(cluster, ns, "quota", "Succeed")


def test_a_task_runs_in_its_pod(cluster, ns):
    process = {"command": ["sh", "-c"], "args": ["while [ ! -e /tmp/go ]; do sleep 0.1; done; exit $CODE"],
               "env": [{"name": "CODE", "value": "0"}]}
    make_sandbox(cluster, ns, "a", replicas=2, template=executor_template(), taskTemplate={"spec": {"process": process}},
                 shardTaskPatches=[{}, {"spec": {"process": {"env": [{"name": "CODE", "value": "7"}]}}}])
    running = cluster.wait(sandboxes(ns), "a", lambda each: each and each.get("status", {}).get("taskRunning") == 2)
    assert len(addresses(running)) == 2
    for address in addresses(running):
        tasks = httpx.get(f"http://{address}:5758/getTasks", trust_env=False).json()
        assert len(tasks) == 1 and "running" in tasks[0]["processStatus"], tasks
    for index in range(2):
        cluster.exec(ns, f"a-{index}", ["touch", "/tmp/go"])
    done = cluster.wait(sandboxes(ns), "a", lambda each: each["status"].get("taskSucceed") == 1 and each["status"].get("taskFailed") == 1)
    assert done["status"]["taskRunning"] == 0
    cluster.delete(f"{sandboxes(ns)}/a")
    wait_gone(cluster, sandboxes(ns), "a")


def test_a_pool_gives_pods_and_takes_them_back(cluster, ns):
    make_pool(cluster, ns, "p", 2, 4)
    wait_pool(cluster, ns, "p", total=2, available=2)
    make_sandbox(cluster, ns, "a", poolRef="p")
    first = wait_phase(cluster, ns, "a", "Succeed")
    assert len(held(first)) == 1 and addresses(first) == [cluster.get(f"{pods(ns)}/{held(first)[0]}")["status"]["podIP"]]
    wait_pool(cluster, ns, "p", total=3, allocated=1, available=2)
    make_sandbox(cluster, ns, "b", poolRef="*")
    second = wait_phase(cluster, ns, "b", "Succeed")
    assert second["spec"]["poolRef"] == "p"
    check_allocation(cluster, ns)
    cluster.delete(f"{sandboxes(ns)}/a")
    wait_gone(cluster, sandboxes(ns), "a")
    wait_gone(cluster, pods(ns), held(first)[0])  # used pods are not given to others
    wait_pool(cluster, ns, "p", total=3, allocated=1, available=2)
    cluster.delete(f"{sandboxes(ns)}/b")
    wait_pool(cluster, ns, "p", total=2, allocated=0, available=2)


def test_more_sandboxes_than_pods_get_theirs_in_order(cluster, ns):
    make_pool(cluster, ns, "p", 1, 2)
    wait_pool(cluster, ns, "p", available=1)
    for name in ("a", "b"):
        make_sandbox(cluster, ns, name, poolRef="p")
        wait_phase(cluster, ns, name, "Succeed")
    make_sandbox(cluster, ns, "c", poolRef="p")
    cluster.wait(sandboxes(ns), "c", lambda each: reason_of(each).get("PoolAllocationPending") == "PoolExhausted")
    cluster.delete(f"{sandboxes(ns)}/a")
    wait_phase(cluster, ns, "c", "Succeed")
    check_allocation(cluster, ns)


def test_a_changed_template_replaces_idle_pods_only(cluster, ns):
    make_pool(cluster, ns, "p", 2, 5, updateStrategy={"maxUnavailable": 1})
    wait_pool(cluster, ns, "p", available=2)
    make_sandbox(cluster, ns, "a", poolRef="p")
    used = held(wait_phase(cluster, ns, "a", "Succeed"))[0]
    changed = template()
    changed["spec"]["containers"][0]["env"] = [{"name": "NEW", "value": "1"}]
    cluster.patch(f"{pools(ns)}/p", {"spec": {"template": changed}})
    wait_pool(cluster, ns, "p", total=3, available=2, updated=2)
    assert "env" not in cluster.get(f"{pods(ns)}/{used}")["spec"]["containers"][0]
    assert not cluster.get(f"{pods(ns)}/{used}")["metadata"].get("deletionTimestamp")


def test_restarted_pods_are_given_again(cluster, ns):
    ends = template(command=("sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.1; done"))
    make_pool(cluster, ns, "p", 1, 1, template=ends, recycleStrategy={"type": "Restart"})
    wait_pool(cluster, ns, "p", available=1)
    make_sandbox(cluster, ns, "a", poolRef="p")
    pod = held(wait_phase(cluster, ns, "a", "Succeed"))[0]
    before = cluster.get(f"{pods(ns)}/{pod}")["status"]["containerStatuses"][0]["containerID"]
    cluster.delete(f"{sandboxes(ns)}/a")
    wait_gone(cluster, sandboxes(ns), "a")
    make_sandbox(cluster, ns, "b", poolRef="p")
    assert held(wait_phase(cluster, ns, "b", "Succeed")) == [pod]
    assert cluster.get(f"{pods(ns)}/{pod}")["status"]["containerStatuses"][0]["containerID"] != before
