"""Sandboxes that attacks come from, behind one face on every backend: a real server on sandboxd, on gVisor, on dockerd or on
Podman."""

import json
import pathlib
import shutil
import tempfile

import httpx

from docker_engine import Engine, Podman
from sandboxd_process import Sandboxd
from server_process import Server

KINDS = ("native", "gvisor", "docker", "podman")
ENGINES = {"docker": Engine, "podman": Podman}


class Prison:
    """One server with its backend. `create` takes the fields of the lifecycle API."""

    def __init__(self, kind):
        self.kind = kind
        self.daemon = ENGINES.get(kind, Sandboxd)()
        settings = {"secure_runtime": {"type": "gvisor"}} if kind == "gvisor" else {}
        if kind in ENGINES:  # a directory that sandboxes may mount and every user of the host can reach
            self.host_path = pathlib.Path(tempfile.mkdtemp(prefix="osb-host-path-"))
            self.host_path.chmod(0o755)
            settings["storage"] = {"allowed_host_paths": [str(self.host_path)]}
        self.server = Server(self.daemon, settings=settings)
        self._shared = {}

    def create(self, **fields):
        return Prisoner(self, self.server.create(**fields)["id"])

    def shared(self, name="prisoner", **fields):
        """A sandbox for all attacks that do it no harm."""
        if name not in self._shared:
            self._shared[name] = self.create(**fields)
        return self._shared[name]

    def remove_all_but_shared(self):
        kept = {each.id for each in self._shared.values()}
        for item in self.server.client.get("/v1/sandboxes", params={"pageSize": 200}).json()["items"]:
            if item["id"] not in kept:
                assert self.server.client.delete(f"/v1/sandboxes/{item['id']}").status_code in (204, 404)
        for name, each in list(self._shared.items()):
            if self.server.state(each.id) != "Running":
                del self._shared[name]

    def close(self):
        self.server.remove_all()
        self.server.close()
        self.daemon.close()
        if self.kind in ENGINES:
            shutil.rmtree(self.host_path)


class Prisoner:
    """A sandbox. The caller of `run` is the sandbox's root."""

    def __init__(self, prison, id):
        self.prison = prison
        self.id = id
        self.headers = prison.server.token(id)
        self.tried = {}  # attack_each_way()
        self.is_shared = False
        self.reached_since = None  # what policy_walls.py asked after the last attack

    @property
    def token(self):
        """Of its execd."""
        return next(iter(self.headers.values()))

    @property
    def address(self):
        return next(each["address"] for each in self.prison.daemon.list() if each["id"] == self.id)

    def is_answering(self):
        """Whether its execd lives."""
        return httpx.get(f"{self.prison.server.url}/sandboxes/{self.id}/proxy/44772/ping", headers=self.headers, timeout=180,
                         trust_env=False).status_code == 200

    def execd(self, path, body):
        """The answer of its execd to a POST, through the server's proxy."""
        self.reached_since = None
        return httpx.post(f"{self.prison.server.url}/sandboxes/{self.id}/proxy/44772{path}", headers=self.headers, json=body,
                          timeout=180, trust_env=False)

    def events(self, command, **fields):
        response = self.execd("/command", {"command": command, **fields})
        assert response.status_code == 200, response.text
        return [json.loads(line) for line in response.text.split("\n\n") if line.strip()]

    def run(self, command, **fields):
        """(exit code, standard output and error as they came)."""
        events = self.events(command, **fields)
        text = "\n".join(each["text"] for each in events if each["type"] in ("stdout", "stderr"))
        errors = [each for each in events if each["type"] == "error"]
        return (int(errors[0]["error"]["evalue"]) if errors else 0), text

    def output(self, command, **fields):
        """The output of a command that must succeed."""
        code, text = self.run(command, **fields)
        assert code == 0, f"exit code {code}: {text}"
        return text

    def remove(self):
        self.prison.server.delete(self.id)
