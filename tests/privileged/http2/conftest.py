"""Servers with HTTP/2 on the internet of the attacks' vault_world.py."""

import io
import json
import pathlib
import subprocess
import sys
import tarfile

import grpc
import httpx
import pytest
import typing_extensions

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TESTS / "support"), str(TESTS / "privileged" / "attacks")]

from policy_world import ALLOWED  # noqa: E402
from vault_world import BOUND, VaultWalls  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent


class Host:
    """A server process on the internet, in the place of the site of the bound host. It prints a line of JSON per request."""

    def __init__(self, vaults, *command):
        vaults.sites[BOUND].shutdown()
        vaults.sites[BOUND].server_close()
        chain, key = vaults.authority.files(BOUND)
        self.process = subprocess.Popen(["nsenter", "-t", str(vaults.internet.pid), "-n", *map(str, command), ALLOWED, str(chain),
                                         str(key)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "listening\n"

    def seen(self):
        """The next request."""
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()
        self.process.stdin.close()


@pytest.fixture(scope="module")
def vaults(tmp_path_factory):
    made = VaultWalls(tmp_path_factory.mktemp("vault"), ("libstdc++6",))
    yield made
    made.close()


@pytest.fixture
def holder(vaults):
    """A sandbox with a filled vault. Afterwards the secret is in no log and no record."""
    made = vaults.create()
    vaults.fill(made)
    yield made
    assert vaults.secrets_seen(made) == []


@pytest.fixture
def grpc_holder(holder):
    """One with gRPC for Python: the packages of the tests, which sandboxes do not see."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
        for module in (grpc.__file__, typing_extensions.__file__):
            path = pathlib.Path(module)
            path = path.parent if path.name == "__init__.py" else path
            archive.add(path, path.name, filter=lambda each: None if "__pycache__" in each.name else each)
    answer = httpx.post(f"{holder.prison.server.url}/sandboxes/{holder.id}/proxy/44772/files/upload", headers=holder.headers,
                        files=[("metadata", ("metadata", json.dumps({"path": "/tmp/packages.tgz"}), "application/json")),
                               ("file", ("file", packed.getvalue()))], timeout=180, trust_env=False)
    assert answer.status_code == 200, answer.text
    holder.output("python3 -c \"import tarfile; tarfile.open('/tmp/packages.tgz').extractall('/tmp/packages')\"")
    return holder


@pytest.fixture
def web_host(vaults):
    """Node's server, with HTTP/2 and HTTP/1.1."""
    made = Host(vaults, "node", HERE / "web_host.mjs")
    yield made
    made.close()


@pytest.fixture
def grpc_host(vaults):
    made = Host(vaults, sys.executable, "-B", HERE / "grpc_host.py")
    yield made
    made.close()
