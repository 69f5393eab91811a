"""What may break in a cluster: pods, nodes, the kubelet, the API server, etcd, the controller. Afterwards no pod has two
holders, none is without a holder and used, no finalizer holds an object back, and nothing lives past its deadline."""

import datetime
import itertools
import os
import random
import signal
import time

import httpx

from cluster import is_ready, patience
from controller_process import Controller
from objects import (CLAIM, addresses, check_allocation, held, make_pool, make_sandbox, pods, pools, sandboxes, template, wait_gone,
                     wait_phase, wait_pool)

ROUNDS = int(os.environ.get("KUBERNETES_ROUNDS", "10"))  # of controllers that are killed


def check_no_orphans(cluster, ns):
    """Every pod belongs to an object that is there, and a claimed one to a sandbox."""
    owners = {each["metadata"]["uid"] for path in (pools(ns), sandboxes(ns)) for each in cluster.items(path)}
    for pod in cluster.items(pods(ns)):
        if "deletionTimestamp" in pod["metadata"]:
            continue
        [owner] = pod["metadata"]["ownerReferences"]
        assert owner["uid"] in owners, f"{pod['metadata']['name']} outlived its {owner['kind']}"
        claim = pod["metadata"].get("annotations", {}).get(CLAIM)
        assert claim is None or claim in owners, f"{pod['metadata']['name']} is claimed by a sandbox that is gone"


def remove_everything(cluster, ns):
    """All of it goes: no finalizer stays."""
    for path in (sandboxes(ns), pools(ns)):
        for each in cluster.items(path):
            cluster.delete(f"{path}/{each['metadata']['name']}")
    for path in (sandboxes(ns), pools(ns), pods(ns)):
        for each in cluster.items(path):
            wait_gone(cluster, path, each["metadata"]["name"])


def test_deleted_pods_are_replaced_and_lost_ones_are_told(cluster, controller, ns):
    make_pool(cluster, ns, "p", 2, 6)
    wait_pool(cluster, ns, "p", available=2)
    for name in ("a", "b"):
        make_sandbox(cluster, ns, name, poolRef="p")
    used = {name: held(wait_phase(cluster, ns, name, "Succeed"))[0] for name in ("a", "b")}
    wait_pool(cluster, ns, "p", total=4, available=2, allocated=2)
    for pod in cluster.items(pods(ns)):
        if pod["metadata"]["name"] != used["b"]:
            cluster.delete(f"{pods(ns)}/{pod['metadata']['name']}")
    lost = cluster.wait(sandboxes(ns), "a", lambda each: "PodLost" in str(each["status"].get("conditions")))
    assert lost["status"]["phase"] == "Failed"
    wait_pool(cluster, ns, "p", available=2)
    assert cluster.get(f"{sandboxes(ns)}/b")["status"]["phase"] == "Succeed"
    check_allocation(cluster, ns)
    check_no_orphans(cluster, ns)
    remove_everything(cluster, ns)


def test_a_drained_node_takes_its_pods_back_later(cluster, controller, ns):
    node = f"/api/v1/nodes/{cluster.node}"
    make_pool(cluster, ns, "p", 1, 3)
    make_sandbox(cluster, ns, "a", template=template())
    wait_phase(cluster, ns, "a", "Succeed")
    wait_pool(cluster, ns, "p", available=1)
    cluster.patch(node, {"spec": {"unschedulable": True}})
    try:
        before = {each["metadata"]["name"]: each["metadata"]["uid"] for each in cluster.items(pods(ns))}
        for name in before:
            cluster.create(f"{pods(ns)}/{name}/eviction", {"apiVersion": "policy/v1beta1", "kind": "Eviction",
                                                           "metadata": {"name": name, "namespace": ns}})
        waiting = cluster.wait(sandboxes(ns), "a", lambda each: "unschedulable" in str(each["status"].get("conditions")))
        assert waiting["status"]["ready"] == 0
        wait_pool(cluster, ns, "p", available=0)
    finally:
        cluster.patch(node, {"spec": {"unschedulable": None}})
    pod = cluster.wait(pods(ns), "a-0", is_ready)
    assert pod["metadata"]["uid"] != before["a-0"]
    cluster.wait(sandboxes(ns), "a", lambda each: addresses(each) == [pod["status"]["podIP"]] and each["status"]["ready"] == 1)
    wait_pool(cluster, ns, "p", available=1)
    check_no_orphans(cluster, ns)
    remove_everything(cluster, ns)


def test_sandboxes_outlive_a_killed_kubelet(cluster, controller, ns):
    make_pool(cluster, ns, "p", 1, 3)
    wait_pool(cluster, ns, "p", available=1)
    make_sandbox(cluster, ns, "a", template=template())
    wait_phase(cluster, ns, "a", "Succeed")
    before = cluster.get(f"{pods(ns)}/a-0")
    cluster.kill("kubelet")
    make_sandbox(cluster, ns, "b", poolRef="p")  # its pod runs: it needs no kubelet
    wait_phase(cluster, ns, "b", "Succeed")
    make_sandbox(cluster, ns, "c", template=template())
    cluster.start("kubelet")
    wait_phase(cluster, ns, "c", "Succeed")
    after = cluster.get(f"{pods(ns)}/a-0")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["status"]["containerStatuses"][0]["containerID"] == before["status"]["containerStatuses"][0]["containerID"]
    check_allocation(cluster, ns)
    remove_everything(cluster, ns)


def restart_api(cluster):
    cluster.kill("kube-apiserver")
    cluster.start("kube-apiserver")
    cluster.wait_api()


def test_the_controller_goes_on_after_a_killed_api_server(cluster, controller, ns):
    make_pool(cluster, ns, "p", 2, 8)
    wait_pool(cluster, ns, "p", available=2)
    for name in "abcd":
        make_sandbox(cluster, ns, name, poolRef="p")
    restart_api(cluster)  # with four allocations under way
    for name in "abcd":
        wait_phase(cluster, ns, name, "Succeed")
    for name in "ab":
        cluster.delete(f"{sandboxes(ns)}/{name}")
    restart_api(cluster)
    for name in "ab":
        wait_gone(cluster, sandboxes(ns), name)
    make_sandbox(cluster, ns, "e", template=template())
    wait_phase(cluster, ns, "e", "Succeed")
    wait_pool(cluster, ns, "p", allocated=2, available=2)
    check_allocation(cluster, ns)
    check_no_orphans(cluster, ns)
    remove_everything(cluster, ns)


def compact(cluster):
    """Forgets etcd's history, and the API server's copy of it with a restart: every watch is too old now."""
    etcd = httpx.Client(base_url="http://127.0.0.1:2379", trust_env=False)
    revision = etcd.post("/v3/kv/range", json={"key": "AA=="}).json()["header"]["revision"]
    etcd.post("/v3/kv/compaction", json={"revision": revision, "physical": True}).raise_for_status()
    restart_api(cluster)


def test_a_forgotten_history_loses_no_change(cluster, controller, ns):
    make_pool(cluster, ns, "p", 1, 4)
    wait_pool(cluster, ns, "p", available=1)
    for name in ("a", "b"):
        make_sandbox(cluster, ns, name, poolRef="p")
        wait_phase(cluster, ns, name, "Succeed")
    controller.process.send_signal(signal.SIGSTOP)
    try:
        cluster.delete(f"{sandboxes(ns)}/a")
        make_sandbox(cluster, ns, "c", poolRef="p")
        compact(cluster)
    finally:
        controller.process.send_signal(signal.SIGCONT)
    wait_gone(cluster, sandboxes(ns), "a")
    wait_phase(cluster, ns, "c", "Succeed")
    check_allocation(cluster, ns)
    check_no_orphans(cluster, ns)
    remove_everything(cluster, ns)


def test_a_standby_takes_over(cluster, controller, ns):
    """A controller that is stopped in order gives the lease up; one that vanishes is replaced when its lease is over."""
    other = Controller(cluster)
    try:
        controller.kill()
        make_sandbox(cluster, ns, "a", template=template())
        wait_phase(cluster, ns, "a", "Succeed")
        controller.start()
        other.stop()
        make_sandbox(cluster, ns, "b", template=template())
        wait_phase(cluster, ns, "b", "Succeed")
    finally:
        other.stop()
    remove_everything(cluster, ns)


def test_a_controller_killed_at_any_point_leaves_nothing_behind(cluster, controller, ns):
    controller.stop()  # the killed ones would leave its lease to wait for
    seed = int(os.environ.get("KUBERNETES_SEED", random.randrange(1 << 32)))
    print(f"KUBERNETES_SEED={seed}")
    choice = random.Random(seed)
    worker = Controller(cluster, "--leader-elect=false")
    deadlines = {}
    names = itertools.count()
    try:
        make_pool(cluster, ns, "p", 2, 8)
        for _ in range(ROUNDS):
            for _ in range(choice.randrange(1, 4)):
                name = f"s{next(names)}"
                until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=choice.randrange(2, 20))
                deadlines[name] = until
                kind = {"poolRef": "p"} if choice.random() < 0.7 else {"template": template()}
                make_sandbox(cluster, ns, name, expireTime=until.strftime("%Y-%m-%dT%H:%M:%SZ"), **kind)
            present = [each["metadata"]["name"] for each in cluster.items(sandboxes(ns))]
            if present and choice.random() < 0.5:
                cluster.delete(f"{sandboxes(ns)}/{choice.choice(present)}")
            time.sleep(choice.random() * 0.4)  # any moment will do
            worker.kill()
            check_allocation(cluster, ns)
            worker.start()
        for name in deadlines:
            wait_gone(cluster, sandboxes(ns), name)
        wait_pool(cluster, ns, "p", total=2, available=2, allocated=0)
        check_no_orphans(cluster, ns)
        late = [each for each in cluster.items(pods(ns)) if each["metadata"]["ownerReferences"][0]["kind"] == "BatchSandbox"
                and "deletionTimestamp" not in each["metadata"]]
        assert late == []
        remove_everything(cluster, ns)
    finally:
        worker.stop()
        controller.start()


def test_the_server_goes_on_after_a_killed_api_server(cluster, controller, server):
    made = server.create(image={"uri": "busybox:test"})
    restart_api(cluster)
    assert server.run(made["id"], "echo still") == "still"
    for _ in patience("the server is not ready again", server.log):  # until then a create is a 503
        if server.client.get("/health/ready").status_code == 200:
            break
    again = server.create(image={"uri": "busybox:test"})
    for each in (made, again):
        server.delete(each["id"])
        wait_gone(cluster, sandboxes(cluster.sandboxes), each["id"])

