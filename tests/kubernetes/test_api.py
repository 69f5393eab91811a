"""The API server itself: our client's expectations of it, and our CRDs."""

import json
import os
import subprocess

import pytest
import yaml

from cluster import GROUP, binary
from controller_process import DEPLOY, _established, install
from objects import make_sandbox, sandboxes, template


def test_the_clients_suite_passes_on_a_real_api_server(cluster, tmp_path):
    """The same suite keeps the in-process API server of the unit tests honest."""
    result = tmp_path / "result.json"
    done = subprocess.run([binary("kubernetes_test", "KUBERNETES_TEST_BINARY"), f"--gtest_output=json:{result}"],
                          env={**os.environ, "OSB_TEST_KUBECONFIG": cluster.kubeconfig}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:]
    cases = [case for suite in json.loads(result.read_text())["testsuites"] for case in suite["testsuite"]]
    ran = [case for case in cases if case["result"] == "COMPLETED" and case["classname"] == "KubernetesApiTest"]
    assert len(ran) >= 15, ran


def older(crd):
    """The definition without fields that came later."""
    crd = json.loads(json.dumps(crd))
    version = crd["spec"]["versions"][0]
    version.pop("additionalPrinterColumns", None)
    properties = version["schema"]["openAPIV3Schema"]["properties"]
    for name in ("pause", "shardTaskPatches", "taskResourcePolicyWhenCompleted"):
        properties["spec"]["properties"].pop(name, None)
    return crd


def test_crds_applied_over_older_ones_keep_objects(cluster, ns):
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    crd = yaml.safe_load((DEPLOY / "crds" / "sandbox.opensandbox.io_batchsandboxes.yaml").read_text())
    cluster.apply(json.dumps(older(crd)))
    cluster.wait(definitions, crd["metadata"]["name"], _established)
    # The version of the objects is served a moment after the definition is established.
    cluster.wait(definitions, crd["metadata"]["name"], lambda _: cluster.get(sandboxes(ns)) is not None)
    made = make_sandbox(cluster, ns, "before", replicas=0, template=template(), pause=True)
    assert "pause" not in made["spec"], "the older definition does not know the field"
    install(cluster)
    kept = cluster.get(f"{sandboxes(ns)}/before")
    assert kept["metadata"]["uid"] == made["metadata"]["uid"]
    assert kept["spec"] == {"taskResourcePolicyWhenCompleted": "Retain", **made["spec"]}, "a later field has its default"
    cluster.wait(sandboxes(ns), "before", lambda _: "pause" in cluster.patch(f"{sandboxes(ns)}/before", {"spec": {"pause": False}})["spec"])
    columns = cluster.ask("GET", sandboxes(ns), headers={"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"})
    assert {"Name", "Desired", "Ready", "Expire"} <= {each["name"].capitalize() for each in columns["columnDefinitions"]}


@pytest.mark.parametrize("spec", [{"replicas": -1}, {"replicas": "many"}, {"expireTime": "tomorrow"}, {"pause": "yes"}],
                         ids=lambda spec: next(iter(spec)) + str(next(iter(spec.values()))))
def test_nonsense_is_refused_by_the_definition(cluster, ns, spec):
    install(cluster)
    body = {"apiVersion": GROUP.removeprefix("/apis/"), "kind": "BatchSandbox", "metadata": {"name": "x"}, "spec": spec}
    answer = cluster.client.post(sandboxes(ns), json=body)
    assert answer.status_code == 422, answer.text
    assert next(iter(spec)) in answer.json()["message"]
