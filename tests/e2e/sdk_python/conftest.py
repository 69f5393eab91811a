"""Every test runs with the sync and the async client, straight to the sandboxes and through the server's proxy; on
Docker, which is slow to make a sandbox, each way with one of the clients."""

import pytest

from backend import backend
from sdk_client import KINDS

WAYS = [(kind, proxied) for proxied in (False, True) for kind in KINDS]


@pytest.fixture(params=WAYS if backend() != "docker" else [WAYS[0], WAYS[-1]],
                ids=lambda p: f"{p[0]}-{'proxy' if p[1] else 'direct'}")
def sdk(server, request):
    kind, proxied = request.param
    client = KINDS[kind](server, proxied)
    client.proxied = proxied
    yield client
    client.close()


@pytest.fixture
def sandbox(sdk):
    made = sdk.create("host", env={"GREETING": "hello"}, metadata={"from": "sdk"})
    yield made
    made.kill()
    made.close()


@pytest.fixture
def manager(sdk):
    made = sdk.manager()
    yield made
    made.close()
