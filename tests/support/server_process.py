"""Runs the real opensandbox-server on a real sandboxd, or a real container engine, for tests. Needs what those need."""

import contextlib
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import tempfile
import threading
import time

import httpx

ROOT = pathlib.Path(__file__).resolve().parents[2]

PATIENCE = 240  # seconds until something that should happen counts as missing

KEY = "a-key-for-tests"
KEY_HEADER = "OPEN-SANDBOX-API-KEY"


def server_binary():
    return os.environ.get("SERVER_BINARY") or str(ROOT / "build" / "release" / "bin" / "opensandbox-server")


def free_port():
    """Not one of those that the kernel gives to connections: such a port may be taken while the server does not run."""
    while True:
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", random.randrange(20_000, 30_000)))
            return probe.getsockname()[1]


class Server:
    """One server on `daemon`, a Sandboxd or an Engine, with records of its own below the daemon's directory.

    `settings` are sections of its TOML file, key="" is a server without a key. stop() and kill() leave its sandboxes alone, start() starts it again on
    the same records and port.
    """

    ports = set()  # of all there ever were

    def __init__(self, daemon, settings=None, key=KEY):
        self.daemon = daemon
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="server-", dir=daemon.directory))
        self.port = free_port()
        Server.ports.add(self.port)
        self.key = key
        sections = {
            "server": {"host": "127.0.0.1", "port": self.port, "api_key": key},
            "store": {"path": str(self.directory / "server.db")},
            **daemon.server_settings(),
        }
        for section, keys in (settings or {}).items():
            sections[section] = {**sections.get(section, {}), **keys}
        lines = []
        for section, keys in sections.items():
            lines.append(f"[{section}]")
            lines += [f"{name} = {json.dumps(value)}" for name, value in keys.items()]
        self.config = self.directory / "server.toml"
        self.config.write_text("\n".join(lines) + "\n")
        self.log_file = open(self.directory / "server.log", "ab")
        self.process = None
        self.client = None
        self.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def start(self, until="is ready"):
        """Returns when it says so."""
        self.process = subprocess.Popen([server_binary(), "--config", str(self.config)], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=self.log_file,
                                        env={**os.environ, **({} if self.key else {"OPENSANDBOX_INSECURE_SERVER": "YES"}),
                                             **self.daemon.server_environment(self.directory)})
        said = b""
        while until.encode() not in said:
            piece = os.read(self.process.stdout.fileno(), 65536)  # unbuffered: all that is read goes to the log
            if not piece:
                raise RuntimeError(f"the server ended with {self.process.wait()}:\n{self.log()}")
            self.log_file.write(piece)
            self.log_file.flush()
            said += piece
        #  Its later output goes straight to the file.
        self._drain = subprocess.Popen(["cat"], stdin=self.process.stdout, stdout=self.log_file)
        self.process.stdout.close()
        self.client = httpx.Client(base_url=self.url, headers={KEY_HEADER: self.key} if self.key else {}, timeout=180,
                                   trust_env=False)

    def log(self):
        return (self.directory / "server.log").read_text(errors="replace")

    @contextlib.contextmanager
    def saying(self, text, times=1):
        """Waits after its body until the server has logged so many lines with `text`; all lines are in the list."""
        log = self.directory / "server.log"
        tail = subprocess.Popen(["tail", "-f", "-c", f"+{log.stat().st_size + 1}", str(log)], stdout=subprocess.PIPE,
                                text=True)
        said = []
        give_up = threading.Timer(PATIENCE, tail.kill)
        try:
            yield said
            give_up.start()
            for line in tail.stdout:
                said.append(line)
                times -= text in line
                if times == 0:
                    return
            raise AssertionError(f"the server did not say {text!r}, but:\n{''.join(said)[-3000:]}")
        finally:
            give_up.cancel()
            tail.kill()
            tail.wait()
            tail.stdout.close()

    def kill(self):
        self.client.close()
        self.process.kill()
        self.process.wait()
        self._drain.wait()

    def stop(self):
        if self.process.poll() is None:
            self.client.close()
            self.process.send_signal(signal.SIGTERM)
            assert self.process.wait(120) == 0, self.log()
            self._drain.wait()

    def close(self):
        self.stop()
        self.log_file.close()

    # --- the API

    def code(self, name):
        """A code that begins with the backend's name."""
        return f"{self.daemon.code_prefix}::{name}"

    def post_sandbox(self, wait=120, headers=None, **fields):
        """`wait`: 0 is answered at once, None as the server likes."""
        body = {"image": {"uri": "host"}, "entrypoint": ["tail", "-f", "/dev/null"], "resourceLimits": {}, **fields}
        body = {name: value for name, value in body.items() if value is not ...}
        params = {} if wait is None else {"wait": wait}
        return self.client.post("/v1/sandboxes", json=body, params=params, headers=headers)

    def create(self, **fields):
        """A sandbox that runs, as its JSON."""
        response = self.post_sandbox(**fields)
        assert response.status_code == 202, response.text
        made = response.json()
        assert made["status"]["state"] == "Running", f"{made}\n{self.log()[-3000:]}\n{self.daemon.log()[-3000:]}"
        return made

    def create_failing(self, **fields):
        """The id of a sandbox whose create fails after its answer, so that it has a record."""
        response = self.post_sandbox(wait=0, **fields)
        assert response.status_code == 202, response.text
        self.wait_state(response.json()["id"], "Failed")
        return response.json()["id"]

    def get(self, id):
        return self.client.get(f"/v1/sandboxes/{id}")

    def state(self, id):
        response = self.get(id)
        return response.json()["status"]["state"] if response.status_code == 200 else response.status_code

    def wait_state(self, id, *wanted):
        """Follows the sandbox's events until it is in one of these states; "deleted" is one."""
        deadline, state = time.monotonic() + PATIENCE, None
        with self.client.stream("GET", f"/v1/sandboxes/{id}", params={"watch": "true"}) as stream:
            if stream.status_code == 404 and "deleted" in wanted:
                return None
            for line in stream.iter_lines():
                late = time.monotonic() > deadline  # pings keep the stream alive
                assert not late, f"{id} is {state}, not {wanted}\n{self.log()[-3000:]}\n{self.daemon.log()[-3000:]}"
                if not line:
                    continue
                event = json.loads(line)
                state = event["sandbox"]["status"]["state"] if event["type"] == "state" else event["type"]
                if state in wanted:
                    return event.get("sandbox")
                #  An ended sandbox stays ended; a deleted one has no more events.
                assert state not in ("Failed", "Terminated") or "deleted" in wanted, f"{event}\n{self.log()[-3000:]}"
        raise AssertionError(f"the events of {id} ended without {wanted}")

    def delete(self, id):
        response = self.client.delete(f"/v1/sandboxes/{id}")
        assert response.status_code == 204, response.text

    def remove_all(self):
        for item in self.client.get("/v1/sandboxes", params={"pageSize": 200}).json()["items"]:
            assert self.client.delete(f"/v1/sandboxes/{item['id']}").status_code in (204, 404)

    def token(self, id):
        """The headers that execd of the sandbox asks for."""
        response = self.client.get(f"/v1/sandboxes/{id}/endpoints/44772")
        assert response.status_code == 200, response.text
        return response.json()["headers"]

    def run(self, id, command, **fields):
        """The output of a command, through the server's proxy and without the API key."""
        response = httpx.post(f"{self.url}/sandboxes/{id}/proxy/44772/command", headers=self.token(id), timeout=180,
                              json={"command": command, **fields}, trust_env=False)
        assert response.status_code == 200, response.text
        events = [json.loads(line) for line in response.text.split("\n\n") if line.strip()]
        return "\n".join(e["text"] for e in events if e["type"] in ("stdout", "stderr"))
