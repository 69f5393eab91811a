"""Runs the real opensandbox-mcp for tests, over stdio or streamable HTTP, and speaks raw MCP to it."""

import json
import os
import re
import signal
import subprocess

import httpx

from sandboxd_process import ROOT

LATEST = "2025-11-25"


def mcp_binary():
    return os.environ.get("MCP_BINARY") or str(ROOT / "build" / "release" / "bin" / "opensandbox-mcp")


def mcp_environment(server, **more):
    """The environment that points opensandbox-mcp at the server."""
    inherited = {name: value for name, value in os.environ.items()
                 if not name.lower().endswith("_proxy") and not name.startswith(("OPEN_SANDBOX_", "OPENSANDBOX_"))}
    return {**inherited, "OPEN_SANDBOX_DOMAIN": f"127.0.0.1:{server.port}", "OPEN_SANDBOX_API_KEY": server.key, **more}


def initialize(version=LATEST, id=0):
    return {"jsonrpc": "2.0", "id": id, "method": "initialize",
            "params": {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}}}


def tool(id, name, **arguments):
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name, "arguments": arguments}}


def data_of(result):
    """The result of a tool: of the published shape its structured content, else the JSON of its only text."""
    assert not result["isError"], result
    if "structuredContent" in result:
        return result["structuredContent"]
    (block,) = result["content"]
    return json.loads(block["text"])


class StdioMcp:
    """One client's process."""

    def __init__(self, server, *args, version=LATEST):
        self.process = subprocess.Popen([mcp_binary(), "--log-level", "warn", *args], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, env=mcp_environment(server))
        self.next_id = 0
        self.others = []  # notifications that came while an answer was awaited
        if version:
            self.initialized = self.ask(initialize(version))
            self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send_bytes(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, message):
        self.send_bytes(json.dumps(message).encode() + b"\n")

    def receive(self):
        """The next message of any kind."""
        line = self.process.stdout.readline()
        assert line.endswith(b"\n"), f"the output ended: {line!r}"
        return json.loads(line)

    def ask(self, message):
        """Sends a request and returns its answer."""
        self.send(message)
        while True:
            answer = self.receive()
            if "method" not in answer:
                assert answer["id"] == message["id"], answer
                return answer
            self.others.append(answer)

    def call(self, name, **arguments):
        self.next_id += 1
        result = self.ask(tool(self.next_id, name, **arguments))["result"]
        return data_of(result)

    def leave(self):
        """Closes the input, as a client that ends; returns the exit status."""
        self.process.stdin.close()
        rest = self.process.stdout.read()
        self.process.stdout.close()
        assert all("method" in json.loads(line) for line in rest.splitlines()), rest
        return self.process.wait(60)

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(60)
        self.process.stdin.close()
        self.process.stdout.close()
        return status


class HttpMcp:
    """A listening opensandbox-mcp."""

    def __init__(self, server, *args, token=None):
        more = {"OPENSANDBOX_MCP_TOKEN": token} if token else {}
        command = [mcp_binary(), "--transport", "streamable-http", "--port", "0", *args]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, env=mcp_environment(server, **more))
        self.token = token
        self.url = None
        for line in self.process.stderr:
            if b"is ready" in line:
                self.url = re.search(rb"url=(\S+)", line).group(1).decode().strip('"')
                break
        assert self.url, f"it ended with {self.process.wait()}"
        #  Its later output is not read, but must not fill the pipe.
        self._drain = subprocess.Popen(["cat"], stdin=self.process.stderr, stdout=subprocess.DEVNULL)
        self.process.stderr.close()
        headers = {"Accept": "application/json, text/event-stream"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        self.client = httpx.Client(headers=headers, timeout=60, trust_env=False)

    def post(self, message, session=None, **headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if session:
            headers["Mcp-Session-Id"] = session
        return self.client.post(self.url, json=message, headers=headers)

    def open_session(self, version=LATEST):
        response = self.post(initialize(version))
        assert response.status_code == 200, response.text
        assert response.json()["result"]["protocolVersion"] == version
        return response.headers["Mcp-Session-Id"]

    def call(self, session, name, **arguments):
        response = self.post(tool("call", name, **arguments), session)
        assert response.status_code == 200, response.text
        return data_of(last_message(response)["result"])

    def stop(self):
        self.client.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(60)
        self._drain.wait()
        return status


def messages(response):
    """The messages of an answer, of either content type."""
    if response.headers["Content-Type"].startswith("application/json"):
        return [response.json()]
    events = [block for block in response.text.split("\n\n") if block]
    data = [line[6:] for block in events for line in block.split("\n") if line.startswith("data: ")]
    return [json.loads(text) for text in data if text.strip()]


def last_message(response):
    return messages(response)[-1]
