"""A private Kubernetes cluster of one node for tests: etcd, API server, controller-manager, scheduler, containerd and
kubelet, all real. Needs root and a network namespace of its own (tests/privileged/in_namespace). The programs come from
scripts/kubernetes-env, the images from this machine's packages: nothing is pulled."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.parse

import httpx
import websockets.sync.client
import yaml

import cluster_config
from docker_engine import EXECD_IMAGE, _child_of, _remove_cgroup, host_layer
from registry import busybox_layer, docker_archive

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATIENCE = 240  # seconds until something that should happen counts as missing
GROUP = "/apis/sandbox.opensandbox.io/v1alpha1"
TASK_EXECUTOR_IMAGE = "opensandbox/task-executor:test"


def binary(name, variable):
    return os.environ.get(variable) or str(ROOT / "build" / "release" / "bin" / name)


class Cluster:
    """One cluster with everything below `directory`. `client` speaks to its API server as an administrator.

    All its processes, pods too, live in a process and a mount namespace that ends with this object, or with this process
    if that is killed: nothing of it stays on the machine.
    """

    node = "node-1"

    def __init__(self, host_image=False):
        """With `host_image` it has the image "host", as the other backends."""
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="cluster-"))
        os.chmod(self.directory, 0o711)
        self.cgroup = f"osb-test-{os.getpid()}-{self.directory.name}"
        self.programs = {}
        programs = subprocess.run([ROOT / "scripts" / "kubernetes-env"], stdout=subprocess.PIPE, text=True)
        assert programs.returncode == 0, "scripts/kubernetes-env failed"
        self.settings = cluster_config.Settings(self.directory, pathlib.Path(programs.stdout.strip()), self.node,
                                                self.cgroup)
        # Directories that the kubelet and containerd's plugins write to, whatever their settings say.
        hidden = " && ".join(f"mount -t tmpfs tmpfs {path}" for path in ("/run", "/var/log", "/var/lib"))
        self._holder = subprocess.Popen(["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
                                         "docker-init", "--", "sh", "-c", f"{hidden} && echo ready; exec cat"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        self.client = httpx.Client(base_url=self.settings.url, verify=self.settings.trust(), timeout=PATIENCE,
                                   headers={"Authorization": f"Bearer {self.settings.token}"}, trust_env=False)
        try:
            assert self._holder.stdout.readline() == b"ready\n", "unshare failed"
            self._init = _child_of(self._holder.pid)
            self.settings.write()
            self._make_cgroup()
            for name in ("etcd", "kube-apiserver", "containerd"):
                self.start(name)
            self.wait_api()
            for name in ("kube-controller-manager", "kube-scheduler"):
                self.start(name)
            self._load_images()
            if host_image:
                self.load("host:latest", [host_layer()])
            self.start("kubelet")
            self.wait("/api/v1/nodes", self.node, is_ready)
        except BaseException:
            self.close()
            raise

    @property
    def kubeconfig(self):
        return str(self.settings.kubeconfig)

    def _make_cgroup(self):
        """The kubelet asks for it in every hierarchy that it knows."""
        mounts = [path for path in pathlib.Path("/sys/fs/cgroup").iterdir() if (path / "cgroup.procs").exists()]
        for mount in mounts or [pathlib.Path("/sys/fs/cgroup")]:
            made = mount / self.cgroup
            made.mkdir()
            for name in ("cpuset.cpus", "cpuset.mems"):
                if (made / name).exists():
                    (made / name).write_text((mount / name).read_text())

    # --- its programs

    def start(self, name):
        log = open(self.directory / f"{name}.log", "ab")
        command = ["nsenter", "--target", str(self._init), "--mount", "--pid", "--", *map(str, self.settings.commands()[name])]
        self.programs[name] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                               start_new_session=True)
        log.close()

    def kill(self, name, how=signal.SIGKILL):
        """Returns when it has ended."""
        os.kill(_child_of(self.programs[name].pid), how)
        self.programs[name].wait(PATIENCE)

    def log(self):
        """The ends of all logs."""
        parts = [f"==> {path.name}\n{path.read_text(errors='replace')[-1500:]}" for path in sorted(self.directory.glob("*.log"))]
        return "\n".join(parts)

    def wait_api(self):
        """Until the API server is ready."""
        for _ in patience("the API server is not ready", self.log):
            ended = [name for name, process in self.programs.items() if process.poll() is not None]
            assert not ended, f"{ended} ended:\n{self.log()}"
            with contextlib.suppress(httpx.TransportError):
                if self.client.get("/readyz").status_code == 200:
                    return

    def close(self):
        """May be called twice."""
        if self._holder.poll() is None:
            self.client.close()
            for state in pathlib.Path("/sys/fs/cgroup/freezer").glob(f"{self.cgroup}/**/freezer.state"):
                state.write_text("THAWED")
            self._holder.stdin.close()  # its first process ends, and the kernel ends all others
            self._holder.stdout.close()
            self._holder.wait()
            for process in self.programs.values():
                process.wait()
        for mount in ("", *os.listdir("/sys/fs/cgroup")):
            _remove_cgroup(pathlib.Path("/sys/fs/cgroup") / mount / self.cgroup)
        shutil.rmtree(self.directory, ignore_errors=True)

    # --- images

    def load(self, name, layers, **config):
        archive = docker_archive(name, layers, **{"Env": ["PATH=/usr/local/bin:/usr/bin:/bin:/sbin"], **config})
        self.ctr(["images", "import", "--no-unpack", "-"], input=archive)

    def allow_plain_registry(self, host):
        """Images are pulled from there without TLS."""
        directory = self.directory / "registries" / host
        directory.mkdir(parents=True)
        (directory / "hosts.toml").write_text(f'[host."http://{host}"]\n  capabilities = ["pull", "resolve"]\n')

    def ctr(self, arguments, **options):
        command = ["nsenter", "--target", str(self._init), "--mount", "--pid", "--", "ctr", "--address",
                   str(self.settings.containerd_socket), "--namespace", "k8s.io", *arguments]
        done = subprocess.run(command, capture_output=True, **options)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    def _load_images(self):
        for _ in patience("containerd does not answer", self.log):
            with contextlib.suppress(AssertionError):
                self.ctr(["version"])
                break
        self.load("pause:test", [busybox_layer()], Entrypoint=["sleep", "2147483647"], Cmd=None)
        self.load("busybox:test", [busybox_layer()], Cmd=["sh"])
        executor = pathlib.Path(binary("task-executor", "TASK_EXECUTOR_BINARY")).read_bytes()
        self.load(TASK_EXECUTOR_IMAGE, [busybox_layer(workspace=None, workspace__server=executor)],
                  Entrypoint=["/workspace/server"], Cmd=None)
        self.load_ours("execd", binary("execd", "EXECD_BINARY"), EXECD_IMAGE)

    def load_ours(self, what, program, name):
        """With the program that makes the images for users."""
        out = self.directory / "image.tar"
        subprocess.run([ROOT / "scripts" / "images", what, "--no-load", "--program", program, "--name", name, "--out", out],
                       check=True, stdout=subprocess.DEVNULL)
        self.ctr(["images", "import", "--no-unpack", "-"], input=out.read_bytes())

    # --- its API

    def ask(self, method, path, status=(200, 201, 202), **options):
        response = self.client.request(method, path, **options)
        assert response.status_code in status, f"{method} {path}: {response.status_code} {response.text}"
        return response.json()

    def get(self, path):
        """The object, or None."""
        response = self.client.get(path)
        return None if response.status_code == 404 else response.raise_for_status().json()

    def items(self, path, **params):
        return self.ask("GET", path, params=params)["items"]

    def create(self, path, body):
        return self.ask("POST", path, json=body)

    def patch(self, path, patch):
        return self.ask("PATCH", path, content=json.dumps(patch), headers={"Content-Type": "application/merge-patch+json"})

    def delete(self, path, status=(200, 202, 404), **options):
        return self.ask("DELETE", path, status, json=options)

    def apply(self, text, manager="tests"):
        """One object in YAML or JSON, by server-side apply; its kind decides the path."""
        for body in yaml.safe_load_all(text):
            self.ask("PATCH", self.path_of(body), params={"fieldManager": manager, "force": "true"},
                     content=json.dumps(body), headers={"Content-Type": "application/apply-patch+yaml"})

    def path_of(self, body):
        group = "/api" if "/" not in body["apiVersion"] else "/apis"
        for each in self.ask("GET", f"{group}/{body['apiVersion']}")["resources"]:
            if each["kind"] == body["kind"] and "/" not in each["name"]:
                middle = f"/namespaces/{body['metadata'].get('namespace', 'default')}" if each["namespaced"] else ""
                return f"{group}/{body['apiVersion']}{middle}/{each['name']}/{body['metadata']['name']}"
        raise AssertionError(f"the API server has no {body['kind']}")

    def namespace(self, name):
        """A new one, when pods can be made in it."""
        self.create("/api/v1/namespaces", {"metadata": {"name": name}})
        self.wait(f"/api/v1/namespaces/{name}/serviceaccounts", "default", lambda each: each and each.get("secrets"))
        return name

    def wait(self, path, name, wanted):
        """Follows one object of a list until `wanted` holds, and returns it. None stands for an object that is gone."""
        deadline = time.monotonic() + PATIENCE
        for object in self.changes(path, name):
            if wanted(object):
                return object
            assert time.monotonic() < deadline, f"{path}/{name} is {json.dumps(object)[-2500:]}\n{self.log()[-6000:]}"

    def changes(self, path, name):
        """The object now and after every change; again now and then. Survives an API server that is away."""
        while True:
            try:
                object = self.get(f"{path}/{name}")
                yield object
                params = {"watch": "true", "fieldSelector": f"metadata.name={name}", "timeoutSeconds": "20",
                          "resourceVersion": self.ask("GET", path, params={"limit": 1})["metadata"]["resourceVersion"]}
                yield self.get(f"{path}/{name}")  # changes before the version above
                with self.client.stream("GET", path, params=params, timeout=30) as stream:
                    for line in stream.iter_lines():
                        event = json.loads(line)
                        if event["type"] == "ERROR":
                            break
                        yield None if event["type"] == "DELETED" else event["object"]
            except (httpx.TransportError, httpx.HTTPStatusError, AssertionError):
                time.sleep(0.2)  # the API server is being started

    def exec(self, ns, pod, command, container="sandbox"):
        """The output of a command in a pod."""
        query = urllib.parse.urlencode([("container", container), ("stdout", "true"), ("stderr", "true"),
                                        *(("command", word) for word in command)])
        address = f"wss://{self.settings.url.removeprefix('https://')}/api/v1/namespaces/{ns}/pods/{pod}/exec?{query}"
        out = {1: b"", 2: b"", 3: b""}
        with websockets.sync.client.connect(address, ssl=self.settings.trust(), subprotocols=["v4.channel.k8s.io"],
                                            additional_headers=dict(self.client.headers), proxy=None) as stream:
            for message in stream:
                out[message[0]] += message[1:]
        assert b"Success" in out[3], out
        return out[1].decode()

    # --- the face that it shares with Sandboxd and Engine

    code_prefix = "KUBERNETES"
    sandboxes = "sandboxes"  # the namespace of the server's sandboxes

    def server_settings(self):
        return {"runtime": {"type": "kubernetes", "execd_image": EXECD_IMAGE},
                "kubernetes": {"kubeconfig_path": self.kubeconfig, "namespace": self.sandboxes,
                               "sandbox_create_timeout_seconds": PATIENCE}}

    def server_environment(self, home):
        return {"HOME": str(home)}

    def list(self):
        """All sandboxes that are not on their way out."""
        items = self.items(f"{GROUP}/namespaces/{self.sandboxes}/batchsandboxes")
        return [{"id": each["metadata"]["name"]} for each in items if "deletionTimestamp" not in each["metadata"]]

    def direct_endpoint(self, id, port):
        pod = self.get(f"/api/v1/namespaces/{self.sandboxes}/pods/{id}-0")
        return f"{pod['status']['podIP']}:{port}"


def is_ready(object):
    """A node or a pod."""
    conditions = (object or {}).get("status", {}).get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def patience(what, log):
    """Yields again and again, and fails with `what` when it takes too long."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        yield
        time.sleep(0.1)
    raise AssertionError(f"{what} after {PATIENCE} s:\n{log()}")
