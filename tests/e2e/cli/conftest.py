import pytest
from osb_program import Osb


@pytest.fixture
def osb(server, tmp_path):
    return Osb(server, tmp_path)


@pytest.fixture
def sandbox(server):
    made = server.create()["id"]
    yield made
    server.client.delete(f"/v1/sandboxes/{made}")  # the test may have done so
