"""The charts: lint, and the rendered objects against schemas, the programs' own parsers and the rules of the project."""

import os
import pathlib
import subprocess
import tempfile
import unittest

import jsonschema
import yaml

import schemas

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHARTS = ROOT / "deploy" / "kubernetes" / "charts"
BIN = pathlib.Path(os.environ.get("BIN", ROOT / "build" / "release" / "bin"))
HELM = subprocess.run([ROOT / "scripts" / "helm"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
CRD = "CustomResourceDefinition"
# Everything that can be turned on.
LARGE = {
    "opensandbox-controller": ["controller.replicaCount=3", "controller.metricsPort=8080", "controller.snapshot.registry=r.test/x",
                               "controller.snapshot.imageCommitterImage=c:1", "controller.snapshot.snapshotPushSecret=push",
                               "controller.snapshot.resumePullSecret=pull", "controller.snapshot.registryInsecure=true",
                               "controller.watchNamespace=boxes", "controller.podLabels.team=a", "controller.podAnnotations.a=b",
                               "controller.nodeSelector.disk=ssd", "controller.extraArgs[0]=--concurrency=pool=3",
                               "controller.extraEnv[0].name=A", "controller.extraEnv[0].value=b",
                               "networkPolicy.metricsFrom[0].podSelector.matchLabels.app=prometheus"],
    "opensandbox-server": ["server.replicaCount=3", "server.apiKeySecret.name=key", "server.env[0].name=A", "server.env[0].value=b",
                           "server.podLabels.team=a", "server.podAnnotations.a=b", "server.volumes[0].name=t",
                           "server.volumes[0].configMap.name=t", "server.volumeMounts[0].name=t", "server.volumeMounts[0].mountPath=/t",
                           "server.workloadProvider=agent-sandbox", "networkPolicy.from[0].podSelector.matchLabels.app=x",
                           "server.gateway.enabled=true", "server.gateway.host=gate.test", "server.gateway.image.repository=g",
                           "server.gateway.image.tag=1", "server.gateway.secureAccess.activeKey=a",
                           "server.gateway.secureAccess.keys[0].key_id=a", "server.gateway.secureAccess.keys[0].key=AQID"],
}
LARGE["opensandbox"] = ["namespaces.create=true"] + [f"{chart}.{value}" for chart in list(LARGE) for value in LARGE[chart]]


def helm(*args):
    done = subprocess.run([HELM, *map(str, args)], capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"helm {' '.join(map(str, args))}: {done.stdout}{done.stderr}")
    return done.stdout


def render(chart, values=(), kube="1.20.2", crds=False):
    sets = [word for value in values for word in ("--set", value)]
    text = helm("template", "test", CHARTS / chart, "--namespace", "elsewhere", "--kube-version", kube, *sets)
    documents = [each for each in yaml.safe_load_all(text) if each]
    return [each for each in documents if crds or each["kind"] != CRD]


def pick(documents, kind, name=None):
    found = [each for each in documents if each["kind"] == kind and name in (None, each["metadata"]["name"])]
    assert len(found) == 1, f"{len(found)} of {kind} {name}"
    return found[0]


def container_of(documents):
    return pick(documents, "Deployment")["spec"]["template"]["spec"]["containers"][0]


class Charts(unittest.TestCase):
    def test_lint(self):
        for chart in LARGE:
            for values in ([], LARGE[chart]):
                sets = [word for value in values for word in ("--set", value)]
                helm("lint", "--strict", CHARTS / chart, *sets)

    def test_objects_have_the_fields_that_kubernetes_knows(self):
        for chart in LARGE:
            for values in ([], LARGE[chart]):
                documents = render(chart, values)
                self.assertGreater(len(documents), 4)
                names = [(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in documents]
                self.assertEqual(len(names), len(set(names)), names)
                for each in documents:
                    schema = schemas.schema_of(each)
                    self.assertIsNotNone(schema, each)
                    jsonschema.validate(each, schema)

    def test_the_schemas_notice_a_wrong_field(self):
        wrong = container_of(render("opensandbox-server"))
        wrong["readinesProbe"] = {}
        with self.assertRaises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schemas.CONTAINER)

    def test_definitions_are_those_of_the_program(self):
        printed = subprocess.run([BIN / "opensandbox-controller", "--print-crds"], check=True, capture_output=True, text=True).stdout
        wanted = {each["metadata"]["name"]: each for each in yaml.safe_load_all(printed) if each}
        self.assertEqual(len(wanted), 3)
        for keep in (True, False):
            rendered = [each for each in render("opensandbox-controller", [f"crds.keep={str(keep).lower()}"], crds=True) if each["kind"] == CRD]
            for each in rendered:
                policy = (each["metadata"].get("annotations") or {}).pop("helm.sh/resource-policy", None)
                self.assertEqual(policy, "keep" if keep else None)
                if each["metadata"].get("annotations") == {}:
                    del each["metadata"]["annotations"]
            self.assertEqual({each["metadata"]["name"]: each for each in rendered}, wanted)
        self.assertEqual([each for each in render("opensandbox-controller", ["crds.install=false"], crds=True) if each["kind"] == CRD], [])

    def test_the_controller_takes_its_arguments(self):
        for values in ([], LARGE["opensandbox-controller"]):
            args = container_of(render("opensandbox-controller", values))["args"]
            done = subprocess.run([BIN / "opensandbox-controller", *args, "--print-crds=pools"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, f"{args}: {done.stderr}")

    def test_the_server_takes_its_file(self):
        for values in ([], LARGE["opensandbox-server"]):
            secret = pick(render("opensandbox-server", values), "Secret", "opensandbox-server-config")
            self.check_server_file(secret["stringData"]["server.toml"])

    def check_server_file(self, text):
        with tempfile.TemporaryDirectory() as directory:
            # The store's place is the pod's.
            path = pathlib.Path(directory) / "server.toml"
            path.write_text(text.replace("/var/lib/opensandbox", directory))
            environment = {"OPENSANDBOX_INSECURE_SERVER": "YES", "HOME": directory, "PATH": os.environ["PATH"]}
            done = subprocess.run([BIN / "opensandbox-server", "--config", path], env=environment, capture_output=True, text=True, timeout=120)
        # All settings are good; what is missing is the cluster.
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("kubeconfig_path", done.stdout + done.stderr)

    def test_rights_are_narrow(self):
        for chart in LARGE:
            for values in ([], LARGE[chart]):
                for role in render(chart, values):
                    for rule in role.get("rules", []):
                        everything = rule["apiGroups"] + rule["resources"] + rule["verbs"]
                        self.assertNotIn("*", everything)
                        if "secrets" in rule["resources"]:
                            self.assertFalse({"get", "list", "watch"} & set(rule["verbs"]), "nobody reads secrets")
        # The server has nothing outside the namespace of its sandboxes but the names of runtime classes.
        cluster = pick(render("opensandbox-server"), "ClusterRole")
        self.assertEqual([rule["resources"] for rule in cluster["rules"]], [["runtimeclasses"]])
        self.assertEqual(pick(render("opensandbox-server"), "Role")["metadata"]["namespace"], "opensandbox")
        # With one namespace to watch the controller has none in the cluster.
        self.assertFalse([each for each in render("opensandbox-controller", LARGE["opensandbox-controller"]) if each["kind"].startswith("Cluster")])
        plain = list(yaml.safe_load_all((ROOT / "deploy" / "kubernetes" / "controller-rbac.yaml").read_text()))
        self.assertEqual(pick(render("opensandbox-controller"), "ClusterRole")["rules"], pick(plain, "ClusterRole")["rules"])

    def test_pods_are_confined_and_watched(self):
        for chart in ("opensandbox-controller", "opensandbox-server"):
            documents = render(chart)
            pod = pick(documents, "Deployment")["spec"]["template"]["spec"]
            self.assertTrue(pod["securityContext"]["runAsNonRoot"])
            self.assertEqual(pod["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
            for container in pod["containers"]:
                self.assertEqual(container["securityContext"], {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                                                                "capabilities": {"drop": ["ALL"]}})
                self.assertEqual(set(container["resources"]), {"limits", "requests"})
                ports = [port["name"] for port in container["ports"]]
                for probe in ("livenessProbe", "readinessProbe"):
                    self.assertIn(container[probe]["httpGet"]["port"], ports)
            selector = pick(documents, "Deployment")["spec"]["selector"]["matchLabels"]
            labels = pick(documents, "Deployment")["spec"]["template"]["metadata"]["labels"]
            self.assertEqual(selector, {key: labels[key] for key in selector})

    def test_drains_leave_one_replica(self):
        kind = "PodDisruptionBudget"
        self.assertEqual([each for each in render("opensandbox-controller") if each["kind"] == kind], [], "one replica could not be drained")
        for kube, version in (("1.20.2", "policy/v1beta1"), ("1.31.0", "policy/v1")):
            for chart, field in (("opensandbox-controller", "controller"), ("opensandbox-server", "server")):
                self.assertEqual(pick(render(chart, [f"{field}.replicaCount=2"], kube), kind)["apiVersion"], version)

    def test_doors_are_closed(self):
        kind = "NetworkPolicy"
        self.assertEqual(pick(render("opensandbox-controller"), kind)["spec"]["ingress"], [])
        documents = render("opensandbox-server")
        sandboxes = pick(documents, kind, "opensandbox-sandboxes")["spec"]
        self.assertEqual(sandboxes["podSelector"], {}, "every pod of the namespace")
        self.assertEqual([len(rule["from"]) for rule in sandboxes["ingress"]], [1, 1])
        chosen = sandboxes["ingress"][0]["from"][0]["podSelector"]["matchLabels"]
        self.assertEqual(chosen, pick(documents, "Deployment")["spec"]["selector"]["matchLabels"])

    def test_the_key_is_no_text_of_the_pod(self):
        environment = container_of(render("opensandbox-server", ["server.apiKeySecret.name=key"]))["env"]
        found = [each for each in environment if each["name"] == "OPENSANDBOX_SERVER_API_KEY"]
        self.assertEqual(found, [{"name": "OPENSANDBOX_SERVER_API_KEY", "valueFrom": {"secretKeyRef": {"name": "key", "key": "api-key"}}}])

    def test_versions_are_the_projects(self):
        version = subprocess.run([BIN / "opensandbox-controller", "--version"], check=True, capture_output=True, text=True).stdout.split()[-1]
        for chart in LARGE:
            about = yaml.safe_load((CHARTS / chart / "Chart.yaml").read_text())
            self.assertEqual((about["version"], about["appVersion"]), (version, version))
        self.assertIn(f"--image-committer-image=opensandbox/image-committer:{version}",
                      container_of(render("opensandbox-controller"))["args"])
        for image in (f"opensandbox/execd:{version}", f"opensandbox/egress:{version}"):
            self.assertIn(image, (CHARTS / "opensandbox-server" / "values.yaml").read_text())


if __name__ == "__main__":
    unittest.main()
