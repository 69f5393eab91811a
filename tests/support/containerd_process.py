"""A private containerd for tests: Debian's, with its own root, state and socket. Needs root."""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

from docker_engine import _child_of, _remove_cgroup
from registry import docker_archive

NAMESPACE = "k8s.io"


class Containerd:
    """Everything is below `directory`. Its processes, containers too, live in a process and a mount namespace that ends
    with this object, or with this process if that is killed. `disk`: the size of its disk, such as "64m". `cri`: it also
    serves the kubelet's interface, with the image "pause:1" for pods."""

    def __init__(self, disk=None, cri=False):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="containerd-"))
        self.socket = self.directory / "containerd.sock"
        self.cgroup = f"osb-test-{os.getpid()}-{self.directory.name}"
        self.process = None
        (self.directory / "root").mkdir()
        (self.directory / "config.toml").write_text(f"""\
version = 2
root = "{self.directory}/root"
state = "{self.directory}/state"
disabled_plugins = ["io.containerd.internal.v1.restart"{'' if cri else ', "io.containerd.grpc.v1.cri"'}]
[grpc]
  address = "{self.socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{self.directory}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "docker.io/library/pause:1"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
""")
        mounts = ["mount -t tmpfs tmpfs /run"]
        if disk:
            mounts.append(f"mount -t tmpfs -o size={disk} tmpfs {self.directory}/root")
        self._holder = subprocess.Popen(["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
                                         "docker-init", "--", "sh", "-c", f"{' && '.join(mounts)} && echo ready; exec cat"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        try:
            assert self._holder.stdout.readline() == b"ready\n", "unshare failed"
            self._init = _child_of(self._holder.pid)
            self.start()
        except BaseException:
            self.close()
            raise

    def _inside(self, *command):
        return ["nsenter", "--target", str(self._init), "--mount", "--pid", "--", *map(str, command)]

    def start(self):
        """Returns when it answers."""
        self.process = subprocess.Popen(self._inside("containerd", "--config", self.directory / "config.toml"),
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                        start_new_session=True)
        said = b""
        while b"successfully booted" not in said:
            line = self.process.stderr.readline()
            assert line, f"containerd did not start: {said.decode()}"
            said += line
        # Its standard error is a pipe that has to be emptied.
        with open(self.directory / "log", "ab") as log:
            self._drain = subprocess.Popen(["cat"], stdin=self.process.stderr, stdout=log)
        self.process.stderr.close()

    def kill(self):
        """Containers go on."""
        os.kill(_child_of(self.process.pid), signal.SIGKILL)
        self.process.wait()

    def log(self):
        return (self.directory / "log").read_text(errors="replace")

    def close(self):
        for state in pathlib.Path("/sys/fs/cgroup").glob(f"freezer/{self.cgroup}/**/freezer.state"):
            state.write_text("THAWED")
        for state in pathlib.Path("/sys/fs/cgroup").glob(f"{self.cgroup}/**/cgroup.freeze"):
            state.write_text("0")
        self._holder.stdin.close()  # its first process ends, and the kernel ends all others
        self._holder.stdout.close()
        self._holder.wait()
        if self.process:
            self.process.wait()
            self._drain.wait()
        for mount in ("", *os.listdir("/sys/fs/cgroup")):
            _remove_cgroup(pathlib.Path("/sys/fs/cgroup") / mount / self.cgroup)
        shutil.rmtree(self.directory, ignore_errors=True)

    # --- by way of its own client

    def ctr(self, *arguments, namespace=NAMESPACE, check=True, **options):
        done = subprocess.run(self._inside("ctr", "--address", self.socket, "--namespace", namespace, *arguments),
                              capture_output=True, **options)
        assert not check or done.returncode == 0, f"ctr {arguments}: {done.stderr.decode()}"
        return done.stdout.decode(errors="replace")

    def load(self, name, layers, unpack=True, **config):
        archive = docker_archive(name, layers, **{"Env": ["PATH=/bin"], **config})
        self.ctr("images", "import", *([] if unpack else ["--no-unpack"]), "-", input=archive)

    def run(self, image, id, pod="a-0", container="sandbox", command=("sleep", "1000000"), namespace=NAMESPACE, options=()):
        """A running container with the labels of the kubelet's."""
        labels = {"io.kubernetes.pod.name": pod, "io.kubernetes.pod.namespace": "boxes",
                  "io.kubernetes.container.name": container, "io.cri-containerd.kind": "container"}
        self.ctr("run", "--detach", "--null-io", "--cgroup", f"/{self.cgroup}/{id}", *options,
                 *(word for each in labels.items() for word in ("--label", "=".join(each))), image, id, *command,
                 namespace=namespace)

    def sh(self, id, script, namespace=NAMESPACE):
        """The output of a shell in a container."""
        return self.ctr("tasks", "exec", "--exec-id", f"x{os.urandom(4).hex()}", id, "sh", "-c", script, namespace=namespace)

    def status(self, id):
        """RUNNING, PAUSED, STOPPED or None."""
        for line in self.ctr("tasks", "ls").splitlines()[1:]:
            if line.split()[0] == id:
                return line.split()[2]
        return None

    def set_attribute(self, id, path, name, value):
        """An extended attribute of a container's file, from outside."""
        pid = self.ctr("tasks", "ps", id).splitlines()[1].split()[0]
        subprocess.run(self._inside("setfattr", "-n", name, "-v", f"0x{value.hex()}", f"/proc/{pid}/root{path}"), check=True)

    def remove(self, id, namespace=NAMESPACE):
        self.ctr("tasks", "kill", "--signal", "SIGKILL", id, check=False, namespace=namespace)
        self.ctr("tasks", "rm", "--force", id, check=False, namespace=namespace)
        self.ctr("containers", "rm", id, check=False, namespace=namespace)

    def remains(self):
        """Names of all leases and snapshots."""
        return (sorted(line.split()[0] for line in self.ctr("leases", "ls").splitlines()[1:]),
                sorted(line.split()[0] for line in self.ctr("snapshots", "ls").splitlines()[1:]))
