"""Runs the real opensandbox-controller on a Cluster, with the rights that deploy/kubernetes gives it and no more."""

import base64
import json
import pathlib
import signal
import subprocess
import tempfile
import threading

from cluster import PATIENCE, ROOT, Cluster, binary

NAMESPACE = "opensandbox-system"
ACCOUNT = "opensandbox-controller-manager"
DEPLOY = ROOT / "deploy" / "kubernetes"


def install(cluster):
    """The CRDs, and the controller's account with its roles."""
    for file in sorted((DEPLOY / "crds").glob("*.yaml")):
        cluster.apply(file.read_text())
    for file in sorted((DEPLOY / "crds").glob("*.yaml")):
        name = file.stem.split("_")[1] + ".sandbox.opensandbox.io"
        cluster.wait("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", name, _established)
    if not cluster.get(f"/api/v1/namespaces/{NAMESPACE}"):
        cluster.namespace(NAMESPACE)
    cluster.apply((DEPLOY / "controller-rbac.yaml").read_text())


def _established(crd):
    conditions = (crd or {}).get("status", {}).get("conditions") or []
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


def account_kubeconfig(cluster, namespace, account):
    """A kubeconfig with the token of a service account."""
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    secret = cluster.wait(accounts, account, lambda each: each and each.get("secrets"))["secrets"][0]["name"]
    token = cluster.wait(f"/api/v1/namespaces/{namespace}/secrets", secret, lambda each: each and "token" in each.get("data", {}))
    config = json.loads(pathlib.Path(cluster.kubeconfig).read_text())
    config["users"][0]["user"] = {"token": base64.b64decode(token["data"]["token"]).decode()}
    file = cluster.directory / f"{namespace}-{account}.kubeconfig"
    file.write_text(json.dumps(config))
    return str(file)


class Controller:
    """A process that is started again when it ends by itself, as a Deployment does it: it ends when it loses its lease.
    start() after stop() or kill() is another one with the same settings."""

    def __init__(self, cluster, *flags):
        self.cluster = cluster
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="controller-", dir=cluster.directory))
        self.log_path = self.directory / "controller.log"
        self.command = [binary("opensandbox-controller", "CONTROLLER_BINARY"), "--kubeconfig",
                        account_kubeconfig(cluster, NAMESPACE, ACCOUNT), "--leader-election-namespace", NAMESPACE,
                        "--health-probe-bind-address", "0", *map(str, flags)]
        self.process = None
        self.start()

    def start(self):
        self._ended = threading.Event()
        self._spawn()
        self._keeper = threading.Thread(target=self._keep, args=(self._ended,), daemon=True)
        self._keeper.start()

    def _spawn(self):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def _keep(self, ended):
        while not ended.is_set():
            self.process.wait()
            if not ended.wait(0.5):
                self._spawn()

    def _end(self, how):
        """Ends the process that runs now; none follows it."""
        self._ended.set()
        self.process.send_signal(how)
        self._keeper.join()
        return self.process.wait(PATIENCE)

    def log(self):
        return self.log_path.read_text(errors="replace")

    def kill(self):
        self._end(signal.SIGKILL)

    def stop(self):
        """The lease is given up, so that the next process works at once."""
        if not self._ended.is_set():
            # One that has just been started may not catch the signal yet.
            assert self._end(signal.SIGTERM) in (0, -signal.SIGTERM), self.log()


class ServedCluster(Cluster):
    """A cluster with all that a server needs: the backend `kubernetes` of the suites."""

    controller = None

    def __init__(self):
        super().__init__(host_image=True)
        try:
            install(self)
            self.namespace(self.sandboxes)
            self.controller = Controller(self)
        except BaseException:
            self.close()
            raise

    def close(self):
        if self.controller:
            self.controller.stop()
        super().close()
