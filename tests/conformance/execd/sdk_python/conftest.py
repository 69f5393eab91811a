"""Every test runs with the sync and the async client, straight to execd and through its own port proxy, which is where
Docker's bridge mode sends all SDK traffic."""

import pytest

from sdk_client import KINDS, endpoint_of


@pytest.fixture(params=[(kind, proxied) for proxied in (False, True) for kind in KINDS],
                ids=lambda p: f"{p[0]}-{'proxy' if p[1] else 'direct'}")
def flavour(request):
    return request.param


@pytest.fixture
def connect(flavour):
    """connect(execd, token=, **connection options): further clients of this test's flavour."""
    kind, proxied = flavour
    clients = []

    def make(execd, token=None, **options):
        client = KINDS[kind](endpoint_of(execd, proxied, token), **options)
        clients.append(client)
        return client

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def sandbox(token_execd, connect):
    """The services of one client: commands, files, health, metrics; `tmp` is a fresh directory, `execd` the daemon."""
    client = connect(token_execd)
    client.execd = token_execd
    client.tmp = str(token_execd.tmp)
    return client
