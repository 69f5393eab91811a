"""A private container engine for tests: Debian's dockerd, or podman's Docker-compatible service. Needs root and a
network namespace of its own (tests/privileged/in_namespace)."""

import contextlib
import functools
import io
import json
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import tarfile
import tempfile

import httpx

from registry import busybox_layer, docker_archive

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXECD_IMAGE = "opensandbox/execd:test"
EGRESS_IMAGE = "opensandbox/egress:test"
ID_LABEL = "opensandbox.io/id"
#  The contents of the image "host" here: the shell, the tools and the Python of the machine that runs the tests.
PACKAGES = ["bash", "dash", "coreutils", "grep", "sed", "findutils", "python3-minimal", "libffi8"]
LEFT_OUT = ("/share/", "/gconv/", "/audit/", "/pydoc_data/", "/test/", "/lib2to3/", "/idlelib/", "/var/")


def _packages(names):
    """These Debian packages and what they need, without alternatives that are not installed."""
    shown = subprocess.run(["dpkg-query", "-W", "-f=${Package}\t${db:Status-Status}\t${Depends}, ${Pre-Depends}\n"],
                           capture_output=True, text=True, check=True).stdout
    needs = {name: depends for name, status, depends in (line.split("\t") for line in shown.splitlines())
             if status == "installed"}
    wanted, seen = list(names), set()
    while wanted:
        name = wanted.pop()
        if name in seen or name not in needs:
            continue
        seen.add(name)
        for group in needs[name].split(","):
            wanted += [each.split()[0].split(":")[0] for each in group.split("|") if each.strip()]
    return sorted(seen - {"perl-base", "debconf", "install-info", "passwd", "login", "adduser"})


@functools.cache
def host_layer(more=(), unpackaged=()):
    """A root made of this machine's own packages, some forty megabytes. `more`: further packages. `unpackaged`: files that belong
    to no package."""
    listed = subprocess.run(["dpkg", "-L", *_packages([*PACKAGES, *more]), *_standard_library()], capture_output=True, text=True,
                            check=True).stdout.splitlines() + list(unpackaged)
    # Directories that are links here (/bin) are links there; files are where those point to.
    files = {}
    for name in listed:
        if not name.startswith("/") or name == "/." or any(part in name for part in LEFT_OUT):
            continue
        real = os.path.join(os.path.realpath(os.path.dirname(name)), os.path.basename(name))
        if os.path.lexists(real):
            files[real] = None
            for parent in pathlib.PurePath(real).parents:
                files.setdefault(str(parent))
    for name in ("/bin", "/sbin", "/lib", "/lib64"):
        if os.path.islink(name):
            files[name] = None
    texts = {"/etc/passwd": "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534::/:/bin/sh\n",
             "/etc/group": "root:x:0:\nnogroup:x:65534:\n"}
    directories = {"/tmp": 0o1777, "/root": 0o700, "/proc": 0o755, "/sys": 0o755, "/dev": 0o755, "/etc": 0o755}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, mode in directories.items():
            info = tarfile.TarInfo(name[1:])
            info.type, info.mode = tarfile.DIRTYPE, mode
            archive.addfile(info)
        for name, text in texts.items():
            info = tarfile.TarInfo(name[1:])
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
        for name in sorted(set(files) - {"/"} - set(texts) - set(directories)):
            archive.add(name, name[1:], recursive=False)
    return out.getvalue()


def _standard_library():
    python = os.path.basename(os.path.realpath("/usr/bin/python3"))
    return [f"lib{python}-stdlib"]


class Engine:
    """One engine with everything below `directory`. `client` speaks to its socket.

    All its processes live in a process and a mount namespace that ends with this object, or with this process if that
    is killed: nothing of it stays on the machine. stop() ends the engine alone; what it runs goes on where the engine
    lets it (dockerd --live-restore). Engines beside each other need different numbers: the first has the usual bridge
    and firewall rules, the others a bridge of their own and published ports without rules.
    """

    kind = "docker"

    def __init__(self, number=0, directory=None, arguments=(), data=None, host_image=True, live_restore=True):
        """`data` is where images and containers go: a directory, or nothing for memory if there is enough."""
        self._own = tempfile.mkdtemp(prefix="engine-", dir=_roomy()) if directory is None else None
        self.directory = pathlib.Path(directory or self._own)
        os.chmod(self.directory, 0o711)
        self.number = number
        self.data = pathlib.Path(data or self.directory / "data")
        self.socket = self.directory / "engine.sock"
        self.cgroup_parent = f"osb-test-{os.getpid()}-{self.directory.name}"
        self.arguments = [*arguments, *(["--live-restore"] if live_restore and self.kind == "docker" else [])]
        self.log_file = open(self.directory / "log", "ab")
        self.process = self.client = None
        # Ends with its standard input, and then so does everything in its namespaces.
        self._holder = subprocess.Popen(["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
                                         "docker-init", "--", "sh", "-c", "echo ready; exec cat"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        try:
            assert self._holder.stdout.readline() == b"ready\n", "unshare failed"
            self._init = _child_of(self._holder.pid)
            self.start()
            self.load_execd()
            if host_image:
                self.load("host:latest", [host_layer()])
        except BaseException:
            self.close()
            raise

    @property
    def url(self):
        return f"unix://{self.socket}"

    def _command(self):
        command = ["dockerd", "--data-root", self.data, "--exec-root", self.directory / "exec", "-H", self.url,
                   "--pidfile", self.directory / "pid", f"--cgroup-parent=/{self.cgroup_parent}",
                   "--exec-opt", "native.cgroupdriver=cgroupfs", "--log-level", "warn"]
        if self.number:
            bridge = f"osbtest{self.number}"
            if bridge not in (name for _, name in socket.if_nameindex()):
                for line in (f"link add {bridge} type bridge", f"addr add 10.{200 + self.number}.0.1/16 dev {bridge}",
                             f"link set {bridge} up"):
                    subprocess.run(["ip", *line.split()], check=True)
            command += ["--bridge", bridge, "--iptables=false", "--ip6tables=false"]
        return [*command, *self.arguments]

    def _spawn(self, command, **options):
        """Runs it in the engine's namespaces. The process that is returned is its parent out here."""
        return subprocess.Popen(["nsenter", "--target", str(self._init), "--mount", "--pid", "--",
                                 *map(str, command)], stdin=subprocess.DEVNULL, stdout=self.log_file,
                                stderr=self.log_file, start_new_session=True, **options)

    def start(self):
        """Returns when it says that it is ready, on the socket that systemd would give it."""
        notify = self.directory / "notify"
        with contextlib.suppress(FileNotFoundError):
            notify.unlink()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready:
            ready.bind(str(notify))
            ready.settimeout(1)
            self.process = self._spawn(self._command(), env={**os.environ, "NOTIFY_SOCKET": str(notify)})
            while True:
                try:
                    if b"READY=1" in ready.recv(4096):
                        break
                except TimeoutError:
                    if self.process.poll() is not None:
                        raise RuntimeError(f"the engine ended with {self.process.returncode}:\n{self.log()}") from None
        self._connect()

    def _connect(self):
        self.client = httpx.Client(transport=httpx.HTTPTransport(uds=str(self.socket)), base_url="http://engine",
                                   timeout=300, trust_env=False)

    @property
    def pid(self):
        return _child_of(self.process.pid)

    def log(self):
        return (self.directory / "log").read_text(errors="replace")

    def stop(self, how=signal.SIGTERM):
        """Returns when it has ended, with what ends with it: a dockerd that finds the containerd of the one before on
        its way out waits a minute for its answer, and one that finds ports still held leaves containers without."""
        if self.process and self.process.poll() is None:
            self.client.close()
            with contextlib.ExitStack() as held:
                ending = select.poll()
                count = 0
                for child in _children_of(self.pid):
                    with contextlib.suppress(ProcessLookupError):
                        fd = os.pidfd_open(child)
                        held.callback(os.close, fd)
                        ending.register(fd, select.POLLIN)
                        count += 1
                os.kill(self.pid, how)
                self.process.send_signal(signal.SIGCONT)  # nsenter stops itself when its child is stopped
                self.process.wait(180)
                while count:
                    ended = ending.poll(180_000)
                    assert ended, "what the engine has started does not end with it"
                    for fd, _ in ended:
                        ending.unregister(fd)
                        count -= 1

    def kill(self):
        self.stop(signal.SIGKILL)

    @property
    def running(self):
        return self.process is not None and self.process.poll() is None

    def close(self):
        """May be called twice."""
        if self._holder.poll() is not None:
            return
        if self.client:
            self.client.close()
        #  Processes frozen by cgroups v1 cannot be killed.
        for state in pathlib.Path("/sys/fs/cgroup/freezer").glob(f"{self.cgroup_parent}/**/freezer.state"):
            state.write_text("THAWED")
        #  The namespace's first process ends when its pipes are closed, and the kernel ends all others.
        self._holder.stdin.close()
        self._holder.stdout.close()
        self._holder.wait()
        if self.process:
            self.process.wait()
        self.log_file.close()
        for mount in ("", *os.listdir("/sys/fs/cgroup")):
            _remove_cgroup(pathlib.Path("/sys/fs/cgroup") / mount / self.cgroup_parent)
        if self._own:
            shutil.rmtree(self._own, ignore_errors=True)

    # --- what tests ask it

    def ask(self, method, path, status=(200, 201, 204, 304), **options):
        response = self.client.request(method, path, **options)
        assert response.status_code in status, f"{method} {path}: {response.status_code} {response.text}"
        return response.json() if response.headers.get("content-type", "").startswith("application/json") else response

    def load_archive(self, archive):
        """Bytes, or an open file."""
        source = io.BytesIO(archive) if isinstance(archive, bytes) else archive
        # In pieces: httpx copies the rest of a piece after each write to the socket.
        pieces = iter(lambda: source.read(1 << 18), b"")
        response = self.client.post("/images/load", params={"quiet": "1"}, content=pieces,
                                    headers={"Content-Type": "application/x-tar"})
        assert response.status_code == 200 and '"error"' not in response.text, response.text

    def load(self, name, layers, **config):
        self.load_archive(docker_archive(name, layers, **config))

    def load_execd(self, name=EXECD_IMAGE):
        self._load_ours("execd", os.environ.get("EXECD_BINARY") or ROOT / "build" / "release" / "bin" / "execd", name)

    def load_egress(self, name=EGRESS_IMAGE):
        program = os.environ.get("EGRESS_BINARY") or ROOT / "build" / "release" / "bin" / "opensandbox-egress"
        self._load_ours("egress", program, name)

    def _load_ours(self, what, program, name):
        """With the program that makes the image for users."""
        done = subprocess.run([ROOT / "scripts" / "images", what, "--program", program, "--name", name,
                               "--out", self.directory / f"{what}.tar"], env={**os.environ, "DOCKER_HOST": self.url},
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def load_busybox(self, name="busybox:latest", **config):
        self.load(name, [busybox_layer()], **config)

    def containers(self, all=True, **labels):
        """Of every kind, also those that sandboxes need beside them."""
        filters = {"label": [f"{name}={value}" if value else name for name, value in labels.items()]}
        return self.ask("GET", "/containers/json", params={"all": "1" if all else "0", "filters": json.dumps(filters)})

    def inspect(self, id):
        """The container of a sandbox."""
        return self.ask("GET", f"/containers/sandbox-{id}/json")

    def kill_children(self, container):
        """SIGKILL for the processes that the first one of a container has started; how many they were."""
        first = self.ask("GET", f"/containers/{container}/json")["State"]["Pid"]
        inside = ["nsenter", "--target", str(self._init), "--mount", "--pid", "--"]
        shown = subprocess.run([*inside, "cat", f"/proc/{first}/task/{first}/children"], capture_output=True, text=True, check=True)
        children = shown.stdout.split()
        for pid in children:
            subprocess.run([*inside, "kill", "-9", pid], check=True)
        return len(children)

    def inventory(self):
        """Names of everything that a sandbox could leave behind. The volume that holds execd and the network belong to all.
        A server that is still filling the volume is waited for."""
        with contextlib.suppress(httpx.ReadTimeout), self.events(60, type=["container"]) as events:
            while True:
                names = sorted(each["Names"][0] for each in self.containers())
                if not any(name.startswith("/sandbox-execd-") for name in names):
                    break
                next(events)
        images = self.ask("GET", "/images/json")
        volumes = [each["Name"] for each in self.ask("GET", "/volumes").get("Volumes") or []]
        return {
            "containers": names,
            "volumes": sorted(name for name in volumes if not name.startswith("opensandbox-execd-")),
            "networks": sorted({each["Name"] for each in self.ask("GET", "/networks")} - {"opensandbox-isolated"}),
            "images": sorted(tag for each in images for tag in each.get("RepoTags") or ["<none>"]),
        }

    def drop_forgotten_networks(self):
        """A dockerd that was killed in the middle of starting a container gives that one's address to another, and keeps
        its network for up to a minute: until then both answer to the address. For when no container is being started."""
        used = {pathlib.Path(self.ask("GET", f"/containers/{each['Id']}/json")["NetworkSettings"]["SandboxKey"]).name
                for each in self.containers()}
        for path in (self.directory / "exec" / "netns").iterdir():
            if path.name not in used | {"default"}:
                subprocess.run(["nsenter", "--target", str(self._init), "--mount", "--", "umount", path],
                               capture_output=True)

    @contextlib.contextmanager
    def events(self, seconds=180, **filters):
        """The engine's own events, from before the body runs; httpx.ReadTimeout after so long a silence."""
        params = {"filters": json.dumps(filters)} if filters else {}
        with self.client.stream("GET", "/events", params=params, timeout=seconds) as stream:
            yield (json.loads(line) for line in stream.iter_lines() if line)

    # --- the face that it shares with Sandboxd

    def server_settings(self):
        return {"runtime": {"type": "docker", "execd_image": EXECD_IMAGE},
                "docker": {"network_mode": "bridge", "cgroup_parent": f"/{self.cgroup_parent}"}}

    def server_environment(self, home):
        return {"DOCKER_HOST": self.url, "HOME": str(home)}

    code_prefix = "DOCKER"

    @staticmethod
    def entrypoint_output(log):
        """A container's log without times."""
        return "".join(line.partition(" ")[2] for line in log.splitlines(keepends=True))

    def list(self):
        """All containers with the name of a sandbox, of any server."""
        found = []
        for each in self.containers():
            name = each["Names"][0].removeprefix("/")
            if not name.startswith("sandbox-") or name.startswith(("sandbox-execd-", "sandbox-egress-")):
                continue
            networks = each["NetworkSettings"]["Networks"] or {}
            address = next((network["IPAddress"] for network in networks.values() if network["IPAddress"]), "")
            found.append({"id": name.removeprefix("sandbox-"), "state": each["State"], "address": address})
        return found

    def create(self, id, labels, image="host"):
        """Behind the server's back, without execd."""
        body = {"Image": image, "Entrypoint": ["tail", "-f", "/dev/null"], "Labels": labels}
        self.ask("POST", "/containers/create", params={"name": f"sandbox-{id}"}, json=body)
        self.ask("POST", f"/containers/sandbox-{id}/start")

    def remove(self, id):
        """Behind the server's back."""
        self.ask("DELETE", f"/containers/sandbox-{id}", params={"force": "1"}, status=(204, 200))

    @contextlib.contextmanager
    def until_removed(self, id):
        """Waits after its body until the sandbox has been removed."""
        with self.events(type=["container"], event=["destroy", "remove"]) as events:
            yield
            assert any(event["Actor"]["Attributes"].get("name") == f"sandbox-{id}" for event in events)

    def wait_for_exactly(self, ids, seconds):
        """Until it has these sandboxes and no others, or nothing has changed for so long; those it has."""
        with contextlib.suppress(httpx.ReadTimeout), self.events(seconds, type=["container"]) as events:
            while (present := {each["id"] for each in self.list()}) != ids:
                next(events)
        return present

    def direct_endpoint(self, id, port):
        """Where clients are sent that talk to a sandbox without the server's proxy."""
        published = self.inspect(id)["NetworkSettings"]["Ports"]["44772/tcp"][0]
        return f"{published['HostIp']}:{published['HostPort']}/proxy/{port}"

    def remove_all(self):
        for each in self.containers():
            path = f"/containers/{each['Id']}"
            removed = self.client.delete(path, params={"force": "1", "v": "1"})
            assert removed.status_code in (204, 404, 409), removed.text
            if removed.status_code == 409:  # a server that has just ended began the removal
                self.ask("POST", path + "/wait", params={"condition": "removed"}, status=(200, 404))


def _roomy():
    """Memory that the host sees as files, which an engine without durability would use; the usual place otherwise."""
    memory = pathlib.Path("/dev/shm")
    return memory if memory.is_dir() and shutil.disk_usage(memory).free > 4 << 30 else None


def _child_of(pid):
    """The only child of a process, which is being started."""
    path = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
    while not (children := path.read_text().split()):
        pass
    return int(children[0])


def _children_of(pid):
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            found += map(int, (task / "children").read_text().split())
    return found


def _remove_cgroup(path):
    with contextlib.suppress(OSError):
        for entry in list(path.iterdir()):
            if entry.is_dir():
                _remove_cgroup(entry)
        path.rmdir()


class Podman(Engine):
    """podman's service instead of dockerd: containers belong to no daemon and go on without it."""

    kind = "podman"

    def _command(self):
        network = self.directory / "networks"
        network.mkdir(exist_ok=True)
        registries = self.directory / "registries.conf"
        registries.write_text('unqualified-search-registries = []\n'
                              '[[registry]]\nlocation = "127.0.0.1"\ninsecure = true\n')
        return ["podman", "--root", self.data, "--runroot", self.directory / "exec", "--tmpdir", self.directory / "tmp",
                "--network-config-dir", network, "--cgroup-manager", "cgroupfs", "--events-backend", "file",
                "--log-level", "warn", *self.arguments, "system", "service", "--time", "0"]

    def start(self):
        """It inherits the listening socket, as from systemd: clients may connect at once and are answered when it is
        ready."""
        with contextlib.suppress(FileNotFoundError):
            self.socket.unlink()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(str(self.socket))
            listener.listen(128)
            # The number that it takes the socket by is 3, and it looks whether the socket is meant for itself. By no
            # other number: what it starts would inherit that, and keep the socket open when it has ended.
            script = 'n=$1; shift; [ $n = 3 ] || exec 3<&$n {n}<&-; export LISTEN_FDS=1 LISTEN_PID=$$; exec "$@"'
            self.process = self._spawn(["bash", "-c", script, "podman", listener.fileno(), *self._command()],
                                       pass_fds=[listener.fileno()],
                                       env={**os.environ, "CONTAINERS_REGISTRIES_CONF":
                                            str(self.directory / "registries.conf")})
        self._connect()
        assert self.ask("GET", "/_ping").text == "OK"


class RootlessPodman(Podman):
    """The service of a user who is not root and exists only in the engine's mount namespace. `stop` and `start` are for
    the end and the beginning: what it leaves running is not taken up again."""

    user = 54321

    # slirp4netns opens /dev/net/tun as the user. A new machine lets only root do that, or has no such node. So the engine's
    # mount namespace gets a /dev of its own: the machine's nodes, links and directories, and another tun. The machine's is
    # not touched.
    DEVICES = """
        mkdir -p "$1"
        mount -t tmpfs -o mode=755,nosuid dev "$1"
        mkdir "$1/net"
        mknod "$1/net/tun" c 10 200
        chmod 666 "$1/net/tun"
        for each in /dev/*; do
            name=${each#/dev/}
            [ "$name" != net ] || continue
            if [ -d "$each" ] && [ ! -L "$each" ]; then
                mkdir "$1/$name"
                mount --rbind "$each" "$1/$name"
            else
                cp -a "$each" "$1/$name"
            fi
        done
        mount --move "$1" /dev
    """

    def start(self):
        self._inside(["sh", "-euc", self.DEVICES, "devices", self.directory / "dev"])
        super().start()

    def server_settings(self):
        settings = super().server_settings()
        del settings["docker"]["cgroup_parent"]  # the user may make cgroups below its own only
        return settings

    def _inside(self, command):
        subprocess.run(["nsenter", "--target", str(self._init), "--mount", "--", *map(str, command)], check=True)

    def _command(self):
        self._make_user()
        return ["setpriv", "--reuid", str(self.user), "--regid", str(self.user), "--clear-groups", "env",
                f"HOME={self.directory / 'home'}", f"XDG_RUNTIME_DIR={self.directory / 'runtime'}", *super()._command()]

    def _make_user(self):
        lines = {"passwd": f"osbtest:x:{self.user}:{self.user}::{self.directory / 'home'}:/bin/sh\n",
                 "group": f"osbtest:x:{self.user}:\n", "subuid": "osbtest:700000:65536\n",
                 "subgid": "osbtest:700000:65536\n"}
        for name, line in lines.items():
            file = self.directory / name
            known = pathlib.Path("/etc") / name
            file.write_text((known.read_text() if name in ("passwd", "group") else "") + line)
            self._inside(["mount", "--bind", file, known])
        for name in ("home", "runtime", "data", "exec", "tmp", "networks"):
            (self.directory / name).mkdir(exist_ok=True)
            os.chown(self.directory / name, self.user, self.user)
        os.chmod(self.directory / "runtime", 0o700)
