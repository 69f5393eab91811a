"""BatchSandboxes and pools as tests make and read them."""

import json

from cluster import GROUP, TASK_EXECUTOR_IMAGE

CLAIM = "sandbox.opensandbox.io/claimed-by"
ENDPOINTS = "sandbox.opensandbox.io/endpoints"
RECORD = "sandbox.opensandbox.io/alloc-status"


def sandboxes(ns):
    return f"{GROUP}/namespaces/{ns}/batchsandboxes"


def pools(ns):
    return f"{GROUP}/namespaces/{ns}/pools"


def pods(ns):
    return f"/api/v1/namespaces/{ns}/pods"


def template(image="busybox:test", command=("sleep", "1000000"), **spec):
    """Its pod ends at once when it is told to."""
    return {"metadata": {"labels": {"app": "test"}}, "spec": {
        "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": False, "enableServiceLinks": False,
        "containers": [{"name": "sandbox", "image": image, "imagePullPolicy": "IfNotPresent", "command": list(command)}],
        **spec}}


def executor_template():
    """A pod whose task-executor runs the tasks."""
    return template(TASK_EXECUTOR_IMAGE, ("/workspace/server", "--log-dir", "/tmp"))


def make_sandbox(cluster, ns, name, **spec):
    return cluster.create(sandboxes(ns), {"apiVersion": "sandbox.opensandbox.io/v1alpha1", "kind": "BatchSandbox",
                                          "metadata": {"name": name}, "spec": spec})


def make_pool(cluster, ns, name, buffer, most, **spec):
    spec = {"template": template(), "scaleStrategy": {"maxUnavailable": "100%"}, **spec,
            "capacitySpec": {"bufferMin": buffer, "bufferMax": buffer, "poolMin": 0, "poolMax": most}}
    return cluster.create(pools(ns), {"apiVersion": "sandbox.opensandbox.io/v1alpha1", "kind": "Pool",
                                      "metadata": {"name": name}, "spec": spec})


def wait_phase(cluster, ns, name, phase):
    return cluster.wait(sandboxes(ns), name, lambda each: each and each.get("status", {}).get("phase") == phase)


def wait_gone(cluster, path, name):
    cluster.wait(path, name, lambda each: each is None)


def wait_pool(cluster, ns, name, **figures):
    def holds(pool):
        status = (pool or {}).get("status", {})
        return all(status.get(key) == value for key, value in figures.items())
    return cluster.wait(pools(ns), name, holds)


def addresses(sandbox):
    return json.loads(sandbox["metadata"].get("annotations", {}).get(ENDPOINTS, "[]"))


def held(sandbox):
    """The pool's pods that a sandbox holds."""
    return json.loads(sandbox["metadata"].get("annotations", {}).get(RECORD, '{"pods":[]}'))["pods"]


def check_allocation(cluster, ns):
    """No pod has two holders, and every claim is the holder's."""
    holder = {}
    known = {each["metadata"]["name"]: each for each in cluster.items(pods(ns))}
    for sandbox in cluster.items(sandboxes(ns)):
        for pod in held(sandbox):
            name = sandbox["metadata"]["name"]
            assert holder.setdefault(pod, name) == name, f"{pod} is held by {holder[pod]} and {name}"
            claim = known.get(pod, {}).get("metadata", {}).get("annotations", {}).get(CLAIM)
            assert claim in (None, sandbox["metadata"]["uid"]), f"{pod} of {name} is claimed by {claim}"
    return holder
