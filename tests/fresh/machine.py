"""A fresh Debian in namespaces of its own: what a new machine has and nothing else.

FreshRoot makes the directory, Quota limits its CPU time, Machine runs commands in it.
"""

import contextlib
import fcntl
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
PERIOD_US = 100_000
TRUST = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")
TRUST_INSIDE = "/etc/ssl/fresh-machine.crt"
# How programs are told which certificate authorities to trust.
TRUST_VARIABLES = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS",
                   "npm_config_cafile", "GIT_SSL_CAINFO")
PROXY_VARIABLES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
# The child is killed when this process dies, however it dies.
WITH_PARENT = ["setpriv", "--pdeathsig", "KILL"]


def _debian_sources():
    """Lines "URI SUITE COMPONENT" of the Debian archives that this machine's apt uses."""
    answer = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)",
                             "Created-By: Packages", "Origin: Debian"], capture_output=True, text=True, check=True)
    sources = sorted(set(answer.stdout.splitlines()), key=answer.stdout.index)
    if not sources:
        raise SystemExit("fresh: apt knows no Debian archive; run apt-get update")
    return sources


class FreshRoot:
    """A directory with a minimal Debian. debootstrap runs once per checkout (build/fresh/base); every machine starts from
    a copy. A root in a given directory is kept for the next run, any other one is removed by close()."""

    def __init__(self, kept=None):
        self.store = REPOSITORY / "build" / "fresh"
        self.store.mkdir(parents=True, exist_ok=True)
        self._remove_leftovers()
        self._own = None
        base = self._base()
        if kept is None:
            self._own = pathlib.Path(tempfile.mkdtemp(prefix="run-", dir=self.store))
            self._lock = _try_lock(self._own)
            self.path = self._own / "root"
        else:
            self.path = pathlib.Path(kept).resolve()
        if not (self.path / "etc").exists():
            partial = self.path.with_name(self.path.name + ".partial")
            if partial.exists():
                shutil.rmtree(partial)
            partial.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["cp", "-a", "--reflink=auto", base, partial], check=True)
            partial.rename(self.path)
        self._connect_to_the_network()

    def _remove_leftovers(self):
        """Removes roots of runs that were killed: no process holds their lock."""
        for path in self.store.glob("run-*"):
            lock = _try_lock(path)
            if lock is not None:
                shutil.rmtree(path, ignore_errors=True)
                os.close(lock)

    def _base(self):
        base = self.store / "base"
        if base.exists():
            return base
        sources = _debian_sources()
        mirror, suite, _ = sources[0].split()
        partial = self.store / "base.partial"
        if partial.exists():
            shutil.rmtree(partial)
        print(f"fresh: debootstrap {suite} from {mirror}", flush=True)
        log = self.store / "debootstrap.log"
        with open(log, "wb") as out:
            # README expects git, to fetch the sources, and make.
            done = subprocess.run(["debootstrap", "--variant=minbase", "--include=ca-certificates,git,make", suite, partial,
                                   mirror], stdout=out, stderr=out)
        if done.returncode:
            raise SystemExit(f"fresh: debootstrap failed, see {log}")
        (partial / "etc/apt/sources.list").write_text("".join(f"deb {line}\n" for line in sources))
        # A machine whose power is cut is made anew, so its packages need not be synced file by file.
        (partial / "etc/dpkg/dpkg.cfg.d/fresh").write_text("force-unsafe-io\n")
        for file in (partial / "var/cache/apt/archives").glob("*.deb"):
            file.unlink()
        partial.rename(base)
        return base

    def _connect_to_the_network(self):
        """Names and certificates as on this machine: the fresh one downloads through the same network."""
        for name in ("resolv.conf", "hosts"):
            shutil.copy(pathlib.Path("/etc") / name, self.path / "etc" / name)
        if TRUST.exists():
            shutil.copy(TRUST, self.path / TRUST_INSIDE[1:])

    def clone(self, place):
        """The sources as they are committed, at `place` inside; a clone that is there is brought up to date."""
        inside = self.path / place.lstrip("/")
        head = subprocess.run(["git", "-C", REPOSITORY, "rev-parse", "HEAD"], capture_output=True, text=True,
                              check=True).stdout.strip()
        git = ["git", "-c", "safe.directory=*", "-c", "advice.detachedHead=false"]
        if inside.exists():
            subprocess.run([*git, "-C", inside, "fetch", "-q", f"file://{REPOSITORY}", head], check=True)
        else:
            subprocess.run([*git, "clone", "-q", "--no-checkout", f"file://{REPOSITORY}", inside], check=True)
        subprocess.run([*git, "-C", inside, "checkout", "-q", "--force", head], check=True)
        return head

    def close(self):
        if self._own:
            shutil.rmtree(self._own, ignore_errors=True)
            os.close(self._lock)


def _try_lock(directory):
    try:
        lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return lock
    except BlockingIOError:
        os.close(lock)
        return None


class Quota:
    """A cgroup that gets at most `cpus` of the machine's CPU time; without a number, no cgroup at all. Sandboxes and
    containers have cgroups elsewhere and run without it: below it, none could be given more than it has."""

    PREFIX = "osb-fresh-"

    def __init__(self, cpus=None):
        self.directory = None
        if cpus is None:
            return
        mounts = [line.split() for line in pathlib.Path("/proc/self/mounts").read_text().splitlines()]
        v1 = [fields[1] for fields in mounts if fields[2] == "cgroup" and "cpu" in fields[3].split(",")]
        v2 = [fields[1] for fields in mounts if fields[2] == "cgroup2"]
        quota = int(cpus * PERIOD_US)
        name = f"{self.PREFIX}{os.getpid()}"
        for path in pathlib.Path((v1 or v2 or ["/nonexistent"])[0]).glob(self.PREFIX + "*"):
            if not os.path.exists(f"/proc/{path.name.removeprefix(self.PREFIX)}"):
                remove_cgroups(path)  # of a run that was killed
        if v1:
            self.directory = pathlib.Path(v1[0]) / name
            self.directory.mkdir()
            (self.directory / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (self.directory / "cpu.cfs_quota_us").write_text(str(quota))
        elif v2:
            (pathlib.Path(v2[0]) / "cgroup.subtree_control").write_text("+cpu")
            self.directory = pathlib.Path(v2[0]) / name
            self.directory.mkdir()
            (self.directory / "cpu.max").write_text(f"{quota} {PERIOD_US}")
        else:
            raise SystemExit("fresh: this machine has no cgroup that limits CPU time; run without a quota")

    def wrap(self, command):
        if self.directory is None:
            return command
        return ["sh", "-c", 'echo 0 >"$0/cgroup.procs" && exec "$@"', str(self.directory), *command]

    def close(self):
        if self.directory is not None:
            remove_cgroups(self.directory)


def remove_cgroups(top):
    for path in [*sorted((each for each in top.rglob("*") if each.is_dir()), reverse=True), top]:
        with contextlib.suppress(OSError):
            path.rmdir()


class Machine:
    """Commands in a fresh root. Each one has namespaces of its own; its processes end with it, and with us."""

    def __init__(self, root, quota, binds=(), quiet=False):
        self.root = root
        self.quota = quota
        self.quiet = quiet
        self.binds = [word for outside, inside in binds for word in ("--bind", str(outside), inside)]

    def run(self, script, output, seconds, **variables):
        """bash -c SCRIPT inside, with its output in a file and, unless quiet, on ours. Returns the exit code; None: out of time."""
        environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
                       "LANG": "C.UTF-8", "TERM": "dumb", "ROOT_OUTSIDE": str(self.root.path), **variables}
        for name in PROXY_VARIABLES:
            if name in os.environ:
                environment[name] = os.environ[name]
        if TRUST.exists():
            environment.update((name, TRUST_INSIDE) for name in TRUST_VARIABLES)
        inside = [str(HERE / "enter"), str(self.root.path), *self.binds, "--", "env", "-i",
                  *(f"{name}={value}" for name, value in environment.items()), "bash", "-c", script]
        command = self.quota.wrap([*WITH_PARENT, "unshare", "--mount", "--pid", "--ipc", "--uts", "--fork",
                                   "--kill-child=KILL", *inside])
        # A session of its own: a Ctrl-C reaches us, and we end it.
        running = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   start_new_session=True)
        copier = threading.Thread(target=_copy, args=(running.stdout, output, self.quiet))
        copier.start()
        try:
            return running.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            _end(running)
            copier.join()


def _copy(stream, output, quiet):
    with stream, open(output, "ab", buffering=0) as file:
        while data := stream.read1():
            file.write(data)
            if not quiet:
                sys.stdout.buffer.write(data)
                sys.stdout.buffer.flush()


def _end(unshare):
    """unshare ends when the first process of its namespaces is gone, and that one is gone after all others."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        children = pathlib.Path(f"/proc/{unshare.pid}/task/{unshare.pid}/children").read_text().split()
        for child in map(int, children):
            os.kill(child, signal.SIGKILL)
        if not children and unshare.poll() is None:
            unshare.kill()
    unshare.wait()
