"""The official Python and JavaScript SDKs tell their users why something failed."""

import json
import os
import pathlib
import subprocess
from datetime import timedelta

import pytest
from opensandbox import SandboxSync
from opensandbox.config import ConnectionConfigSync
from opensandbox.models.execd import RunCommandOpts

ROOT = pathlib.Path(__file__).resolve().parents[3]
MISSING = "127.0.0.1:9/no/such:image"  # nothing listens on port 9 of a test's namespace


@pytest.fixture
def connection(server):
    return ConnectionConfigSync(domain=f"127.0.0.1:{server.port}", api_key=server.key, request_timeout=timedelta(minutes=2))


def test_python_names_an_image_that_cannot_be_had(connection):
    with pytest.raises(Exception) as caught:
        SandboxSync.create(MISSING, connection_config=connection)
    assert "no/such" in str(caught.value) and "health" not in str(caught.value).lower()


def test_javascript_names_an_image_that_cannot_be_had(server, tmp_path):
    (tmp_path / "node_modules").symlink_to(ROOT / "build/node/node_modules")
    (tmp_path / "create.mjs").write_text(
        'import { Sandbox } from "@alibaba-group/opensandbox";\n'
        f'await Sandbox.create({{ image: {json.dumps(MISSING)} }}).catch((error) => console.log(`${{error}}`));\n')
    done = subprocess.run(["node", tmp_path / "create.mjs"], capture_output=True, text=True, timeout=180, check=True,
                          env={**os.environ, "OPEN_SANDBOX_DOMAIN": f"127.0.0.1:{server.port}",
                               "OPEN_SANDBOX_API_KEY": server.key})
    assert "no/such" in done.stdout and "health" not in done.stdout.lower(), done.stdout


def test_python_tells_out_of_memory_and_a_timeout_apart(connection):
    sandbox = SandboxSync.create("host", resource={"memory": "96Mi"}, connection_config=connection)
    try:
        hungry = sandbox.commands.run("python3 -c 'bytearray(10**9)'")
        assert "out of memory (limit 96 MiB)" in str(hungry.error), hungry.error
        slow = sandbox.commands.run("sleep 60", opts=RunCommandOpts(timeout=timedelta(seconds=1)))
        assert "timed out after 1" in str(slow.error), slow.error
    finally:
        sandbox.kill()


def test_python_says_that_a_sandbox_was_deleted(connection, server):
    sandbox = SandboxSync.create("host", connection_config=connection)
    server.delete(sandbox.id)
    with pytest.raises(Exception, match="was deleted"):
        sandbox.get_info()
