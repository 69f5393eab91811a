"""Runs the real sandboxd for tests. Needs root and a network namespace of its own (tests/privileged/in_namespace)."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile

import httpx

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOKEN_HEADER = "X-EXECD-ACCESS-TOKEN"


def binary(name):
    return os.environ.get(f"{name.upper()}_BINARY") or str(ROOT / "build" / "release" / "bin" / name)


class Sandboxd:
    """One daemon with a state directory of its own below `directory`. `client` speaks to its socket.

    `settings` are sections of its TOML file: {"sandbox": {"allow_host_network": True}}. stop() ends it and leaves its
    sandboxes alone; start() starts it again on the same state. close() removes everything.
    """

    def __init__(self, directory=None, settings=None, env=None):
        self._own = tempfile.mkdtemp(prefix="sandboxd-") if directory is None else None
        self.directory = pathlib.Path(directory or self._own)
        os.chmod(self.directory, 0o711)
        self.state = self.directory / "state"
        self.run = self.directory / "run"
        self.cgroup_parent = f"osb-test-{os.getpid()}-{self.directory.name}"
        sections = {"daemon": {"cgroup_parent": self.cgroup_parent}, **(settings or {})}
        sections["daemon"] = {"cgroup_parent": self.cgroup_parent, **sections["daemon"]}
        lines = []
        for section, keys in sections.items():
            lines.append(f"[{section}]")
            lines += [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
        self.config = self.directory / "sandboxd.toml"
        self.config.write_text("\n".join(lines) + "\n")
        self.env = dict(env or {})
        self.log_file = open(self.directory / "log", "ab")
        self.process = None
        self.client = None
        self.start()

    def start(self, env=None):
        """Returns when it is ready: it says so on the socket that systemd would give it."""
        notify = self.directory / "notify"
        with contextlib.suppress(FileNotFoundError):
            notify.unlink()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready:
            ready.bind(str(notify))
            ready.settimeout(1)
            self.process = subprocess.Popen(
                [binary("sandboxd"), "--config", str(self.config), "--state-dir", str(self.state),
                 "--run-dir", str(self.run), "--execd", binary("execd")],
                env={**os.environ, **self.env, **(env or {}), "NOTIFY_SOCKET": str(notify)},
                stdin=subprocess.DEVNULL, stdout=self.log_file, stderr=self.log_file)
            while True:
                try:
                    ready.recv(64)
                    break
                except TimeoutError:
                    if self.process.poll() is not None:
                        log = self.log()
                        why = log.rstrip().rpartition("\n")[2]  # first: reports are cut off at their end
                        raise RuntimeError(f"sandboxd ended with {self.process.returncode}: {why}\n{log}") from None
        self.client = httpx.Client(transport=httpx.HTTPTransport(uds=str(self.run / "sandboxd.sock")),
                                   base_url="http://sandboxd", timeout=120, trust_env=False)

    @property
    def pid(self):
        return self.process.pid

    def log(self):
        return (self.directory / "log").read_text(errors="replace")

    def kill(self):
        """As the kernel would: without a chance to clean up."""
        self.client.close()
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.client.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            assert self.process.wait(30) == 0, self.log()

    def create(self, id, image="host", **fields):
        response = self.client.post("/v1/sandboxes", json={"id": id, "image": image, **fields})
        assert response.status_code == 201, f"{response.status_code} {response.text}\n{self.log()[-4000:]}"
        return Sandbox(self, response.json())

    def refused(self, **fields):
        """The problem that a create is answered with."""
        response = self.client.post("/v1/sandboxes", json={"image": "host", **fields})
        assert response.status_code >= 400, response.text
        return response.status_code, response.json()

    def list(self):
        return self.client.get("/v1/sandboxes").json()["sandboxes"]

    def wait_for(self, id, wanted):
        """Follows the events until `wanted` says yes to the sandbox's status, which is returned."""
        with self.client.stream("GET", "/v1/events") as stream:
            for line in stream.iter_lines():
                event = json.loads(line)
                for status in event.get("sandboxes") or [event.get("sandbox") or {}]:
                    if status.get("id") == id and wanted(status):
                        return status
        raise AssertionError("the stream of events ended")

    def wait_for_end(self, id):
        return self.wait_for(id, lambda status: status["state"] == "exited")

    def said(self, id, wanted):
        """Follows what the entrypoint writes until `wanted` says yes to all of it, which is returned."""
        log = b""
        with self.client.stream("GET", f"/v1/sandboxes/{id}/logs/stream", params={"follow": 1}) as stream:
            assert stream.status_code == 200, stream.read()
            for piece in stream.iter_bytes():
                log += piece
                text = self.entrypoint_output(log.decode())
                if wanted(text):
                    return text
        raise AssertionError(f"the sandbox ended after {log}")

    # --- what the server's suites ask of every backend

    code_prefix = "NATIVE"

    @staticmethod
    def entrypoint_output(log):
        """The log as the server returns it, without times."""
        return "".join(line.partition(" ")[2] for line in log.splitlines(keepends=True))

    def server_settings(self):
        return {"runtime": {"type": "native"}, "native": {"socket": str(self.run / "sandboxd.sock")}}

    def server_environment(self, home):
        return {"HOME": str(home)}

    def remove(self, id):
        """Behind the server's back."""
        assert self.client.delete(f"/v1/sandboxes/{id}").status_code == 204

    @contextlib.contextmanager
    def until_removed(self, id):
        """Waits after its body until the sandbox has been removed."""
        with self.client.stream("GET", "/v1/events") as stream:
            lines = stream.iter_lines()
            next(lines)
            yield
            assert any('"removed"' in line and id in line for line in lines)

    def wait_for_exactly(self, ids, seconds):
        """Until it has these sandboxes and no others, or nothing has changed for so long; those it has."""
        present = set()
        with contextlib.suppress(httpx.ReadTimeout), self.client.stream("GET", "/v1/events", timeout=seconds) as stream:
            for line in stream.iter_lines():
                event = json.loads(line)
                if "sandboxes" in event:
                    present = {each["id"] for each in event["sandboxes"]}
                elif event.get("type") == "removed":
                    present.discard(event["id"])
                elif "sandbox" in event:
                    present.add(event["sandbox"]["id"])
                if present == ids:
                    break
        return present

    def direct_endpoint(self, id, port):
        """Where clients are sent that talk to a sandbox without the server's proxy."""
        return f"{next(each['address'] for each in self.list() if each['id'] == id)}:{port}"

    def traces(self, id):
        """All traces of a sandbox: directory, socket, cgroups, the daemon's own knowledge."""
        found = [self.state / "sandboxes" / id, self.run / "execd" / f"{id}.sock"]
        found = [str(path) for path in found if path.exists()]
        for pattern in ("", "*/"):
            found += map(str, pathlib.Path("/sys/fs/cgroup").glob(f"{pattern}{self.cgroup_parent}/{id}"))
        return found + [id for each in self.list() if each["id"] == id]

    def remove_all(self):
        for sandbox in self.list():
            assert self.client.delete(f"/v1/sandboxes/{sandbox['id']}").status_code in (204, 404)

    def close(self):
        if self.process.poll() is None:
            self.remove_all()
            self.stop()
        self.log_file.close()
        for mount in ("", *os.listdir("/sys/fs/cgroup")):
            with contextlib.suppress(OSError):
                os.rmdir(f"/sys/fs/cgroup/{mount}/{self.cgroup_parent}")
        if self._own:
            shutil.rmtree(self._own, ignore_errors=True)


class Sandbox:
    """A created sandbox. `run` executes a shell command in it through execd."""

    def __init__(self, daemon, status):
        self.daemon = daemon
        self.id = status["id"]
        self.status = status
        #  Sandboxes of an OCI runtime have an address only.
        uds = status["execd_socket"] or None
        self.execd = httpx.Client(transport=httpx.HTTPTransport(uds=uds),
                                  base_url="http://execd" if uds else f"http://{status['address']}:44772",
                                  headers={TOKEN_HEADER: status["execd_token"]}, timeout=120, trust_env=False)

    def events(self, command, **fields):
        response = self.execd.post("/command", json={"command": command, **fields})
        assert response.status_code == 200, response.text
        return [json.loads(line) for line in response.text.split("\n\n") if line.strip()]

    def run(self, command, **fields):
        """(exit code, standard output and error as they came)."""
        events = self.events(command, **fields)
        text = "\n".join(e["text"] for e in events if e["type"] in ("stdout", "stderr"))
        errors = [e for e in events if e["type"] == "error"]
        return (int(errors[0]["error"]["evalue"]) if errors else 0), text

    def output(self, command, **fields):
        """The output of a command that must succeed."""
        code, text = self.run(command, **fields)
        assert code == 0, f"exit code {code}: {text}"
        return text

    def inspect(self):
        response = self.daemon.client.get(f"/v1/sandboxes/{self.id}")
        return response.json() if response.status_code == 200 else None

    def remove(self):
        self.execd.close()
        response = self.daemon.client.delete(f"/v1/sandboxes/{self.id}")
        assert response.status_code == 204, response.text
