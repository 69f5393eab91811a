"""The peers of bench/peers: how each is set up for bench_peers_load, what it is asked for and what it does not have."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import time

import fixtures
import harness
import report

EVERYTHING = ("create", "execd", "cycle", "memory", "commands", "first", "stream", "files", "get", "pause", "snapshot")
KEY = "a-key-for-benches"
ORIGINAL = harness.ROOT / "build" / "bench" / "original-server"


class Peer:
    """One way to have sandboxes. `none` says in a word why something is not measured."""

    name = label = ""
    none = {}
    creates = {1: 20, 10: 3, 50: 1, 100: 1}  # clients: rounds
    cycles = 100
    kept = (50,)
    patience = 120  # seconds for one size of creates
    seconds = 150  # what is not begun by then is left out: the others shall have their turn

    def __init__(self, site):
        self.site = site
        self.load = None
        self.open = contextlib.ExitStack()

    def start(self):
        """Sets self.load. Objects opened in self.open are closed at the end."""

    def start_for_memory(self):
        """Before each of `kept`: idle, without what earlier measurements have left in its pools."""

    def sweep(self):
        """Removes what a failed measurement has left."""

    def close(self):
        self.open.close()

    def _load(self, where, **options):
        return harness.Load(self.site.options.build / "bin" / "bench_peers_load", where, **options)


# Peers with an execd of their own wait for it in each create.
OWN_EXECD = {"execd": "in each create"}


class Native(Peer):
    name, label = "native", "this project, native"
    none = OWN_EXECD
    creates = {1: 100, 10: 10, 50: 4, 100: 3}
    cycles = 2000
    kept = (100, 500, 1000)
    slots = 128

    def start(self):
        self._begin({"network": {"ready_slots": self.slots}})

    def start_for_memory(self):
        self._end()
        self._begin({})

    def _begin(self, settings):
        from server_process import Server
        self.daemon = fixtures.sandboxd(self.site.directory("n"), self.site.root, settings)
        self.open.callback(self.daemon.close)
        self.server = Server(self.daemon, key=KEY)
        self.open.callback(self.server.close)
        self.load = self._load(f"native:{self.server.port}:{KEY}:{fixtures.IMAGE}:{self.daemon.run}/sandboxd.sock",
                               log=self.server.log)

    def _end(self):
        self.open.close()
        self.open = contextlib.ExitStack()

    def sweep(self):
        self.server.remove_all()


class OnEngine(Peer):
    def sweep(self):
        self.site.engine.remove_all()


class Docker(OnEngine):
    name, label = "docker", "this project, Docker"
    none = OWN_EXECD

    def start(self):
        from server_process import Server
        server = self.open.enter_context(contextlib.closing(Server(self.site.engine, key=KEY)))
        self.load = self._load(f"lifecycle:{server.port}:{KEY}:{fixtures.IMAGE}:{self.site.engine.socket}", log=server.log)


class Original(OnEngine):
    name, label = "original", "original server, Docker"
    none = OWN_EXECD
    seconds = 210

    def start(self):
        from docker_engine import EXECD_IMAGE
        if not (ORIGINAL / ".requirements").exists():
            raise RuntimeError("it could not be installed from the package index")
        directory = self.site.directory("o")
        port = report.free_port()
        (directory / "config.toml").write_text("\n".join([
            "[server]", 'host = "127.0.0.1"', f"port = {port}", f'api_key = "{KEY}"',
            "[log]", 'level = "WARNING"',
            "[runtime]", 'type = "docker"', f'execd_image = "{EXECD_IMAGE}"',
            "[docker]", 'network_mode = "bridge"', 'publish_host = "127.0.0.1"',
            "[store]", f'path = "{directory}/server.db"', ""]))
        log = directory / "log"
        process = subprocess.Popen(
            [ORIGINAL / "bin" / "opensandbox-server", "--config", directory / "config.toml"], stdin=subprocess.DEVNULL,
            stdout=open(log, "ab"), stderr=subprocess.STDOUT,
            env={**os.environ, "DOCKER_HOST": self.site.engine.url, "HOME": str(directory)})
        self.open.callback(_end, process)
        _wait_for_port(port, process, log)
        self.load = self._load(f"lifecycle:{port}:{KEY}:{fixtures.IMAGE}:{self.site.engine.socket}",
                               log=lambda: log.read_text(errors="replace"))


class Engine(OnEngine):
    name, label = "engine", "Docker Engine"

    def start(self):
        self.load = self._load(f"engine:{self.site.engine.socket}:{fixtures.IMAGE}", log=self.site.engine.log)


class Runc(Peer):
    name = label = "runc"
    creates = {1: 40, 10: 5, 50: 2, 100: 1}
    seconds = 80
    none = {"files": "no such interface", "get": "no daemon", "snapshot": "CRIU only"}
    program = "runc"
    arguments = ()
    # Reaps the processes that `run --detach` leaves: runsc takes a dead sandbox for alive until it is reaped.
    prefix = ("docker-init", "-s", "--")

    def start(self):
        directory = self.site.directory(self.name)
        bundle = fixtures.oci_bundle(directory / "bundle", self.site.root, fixtures.STAY)
        fixtures.oci_bundle(directory / "bundle-execd", self.site.root, fixtures.EXECD)
        self.command = [self.program, "--root", str(directory / "state"), *self.arguments]
        self.load = self._load(f"oci:{' '.join(self.command)}:{bundle}", prefix=self.prefix)
        self.open.callback(self.sweep)

    def sweep(self):
        listed = subprocess.run([*self.prefix, *self.command, "list", "-q" if self.program == "runc" else "-quiet"],
                                capture_output=True, text=True).stdout.split()
        for id in listed:
            subprocess.run([*self.prefix, *self.command, "delete", "--force", id], capture_output=True)


class Runsc(Runc):
    name = label = program = "runsc"
    creates = {1: 15, 10: 2, 50: 1, 100: 1}
    patience = 60
    seconds = 130
    none = {"execd": "takes no socket along", "files": "no such interface", "get": "no daemon",
            "snapshot": "of memory only"}
    arguments = ("--network=none", "--ignore-cgroups")
    # Debian's does not start on newer kernels where it can see these settings of the network.
    prefix = (*Runc.prefix, "unshare", "--mount", "--", "sh", "-c", 'mount -t tmpfs none /proc/sys/net && exec "$@"', "sh")


class Bwrap(Peer):
    name = label = "bwrap"
    creates = {1: 100, 10: 10, 50: 4, 100: 3}
    seconds = 60
    none = {"commands": "no way in", "first": "no way in", "files": "no such interface", "get": "no daemon",
            "pause": "no such thing", "snapshot": "no such thing"}

    def start(self):
        self.load = self._load(f"bwrap:{self.site.root}")


ALL = {peer.name: peer for peer in (Native, Docker, Engine, Original, Runc, Runsc, Bwrap)}


class Site:
    """Shared by all peers: a root, a container engine, a place."""

    def __init__(self, options, work):
        self.options = options
        self.work = work
        self.open = contextlib.ExitStack()
        self.root = work / "root"
        self._engine = None
        self._directories = 0
        fixtures.make_root(self.root)
        shutil.copy(options.build / "bin" / "execd", self.root / "bin" / "execd")

    def directory(self, name):
        self._directories += 1
        path = self.work / f"{name}{self._directories}"
        path.mkdir()
        return path

    @property
    def engine(self):
        """Started when the first asks for it. On disk, as everywhere else: memory would flatter its users."""
        if self._engine is None:
            from docker_engine import Engine as DockerEngine
            self._engine = self.open.enter_context(contextlib.closing(
                DockerEngine(directory=self.directory("e"), host_image=False)))
            fixtures.import_root(self._engine, self.root)
        return self._engine

    def close(self):
        self.open.close()


def _end(process):
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _wait_for_port(port, process, log):
    import httpx
    for _ in range(600):
        with contextlib.suppress(httpx.TransportError):
            httpx.get(f"http://127.0.0.1:{port}/health", trust_env=False)
            return
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise RuntimeError(f"the original server does not listen: {pathlib.Path(log).read_text()[-2000:]}")


def used_kib():
    """Memory in use, after the kernel has dropped its caches. Shared memory counts:
    gVisor keeps a sandbox's pages there."""
    os.sync()
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")
    fields = dict(line.split(":") for line in pathlib.Path("/proc/meminfo").read_text().splitlines())
    return sum(int(fields[name].split()[0]) * sign for name, sign in
               (("MemTotal", 1), ("MemFree", -1), ("Buffers", -1), ("Cached", -1), ("Shmem", 1)))


def settled_kib():
    """used_kib() when what ended before has been given back: namespaces go long after their last process."""
    seen = used_kib()
    for _ in range(20):
        time.sleep(1)
        before, seen = seen, used_kib()
        if abs(seen - before) < 1024:
            break
    return seen


def memory_of(load, count, settle):
    """Of each of so many idle sandboxes, in KiB: all that the machine has less of while they are there."""
    with subprocess.Popen([*map(str, load.command), "keep", str(count), "4"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as keeper:
        try:
            keeper.stdout.readline()
            before = settled_kib()
            keeper.stdin.write("\n")
            keeper.stdin.flush()
            if not keeper.stdout.readline():
                raise RuntimeError(keeper.stderr.read()[-500:])
            time.sleep(settle)  # execd gives memory back when it is idle
            after = settled_kib()
            keeper.stdin.close()
            keeper.wait(240)
        finally:
            if keeper.poll() is None:
                keeper.kill()
    return {"sandboxes": count, "kib_each": (after - before) / count}


