import os
import pathlib
import tempfile

import pytest
from osb_program import Osb
from osb_up import UpService, install_programs


@pytest.fixture
def osb(server, tmp_path):
    return Osb(server, tmp_path)


@pytest.fixture
def sandbox(server):
    made = server.create()["id"]
    yield made
    server.client.delete(f"/v1/sandboxes/{made}")  # the test may have done so


@pytest.fixture
def make_service(tmp_path, monkeypatch):
    """Makes services for `osb up`; all that they leave is removed afterwards."""
    monkeypatch.setenv("OSB_BINARY", str(install_programs(tmp_path / "bin")))
    made = []
    with tempfile.TemporaryDirectory(prefix="up-") as around:  # the names of sockets are short
        os.chmod(around, 0o711)  # the server has no privilege

        def make(name="service"):
            made.append(UpService(pathlib.Path(around) / name, tmp_path))
            return made[-1]

        yield make
        for each in made:
            each.purge()


@pytest.fixture
def service(make_service):
    return make_service()
