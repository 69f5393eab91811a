"""Every test runs with the sync and the async client, straight to the sandboxes and through the server's proxy."""

import pytest

from sdk_client import KINDS


@pytest.fixture(params=[(kind, proxied) for proxied in (False, True) for kind in KINDS],
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
