"""/health/ready tells whether a create would be served."""

import os
import subprocess

import pytest


@pytest.fixture
def small_disk(tmp_path):
    """A file system of two megabytes."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(disk)], check=True)
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_store_that_cannot_be_written_is_noticed_while_nothing_happens(make_server, small_disk):
    server = make_server(settings={"store": {"path": str(small_disk / "records" / "server.db")}})
    filler = small_disk / "filler"
    with filler.open("wb") as file, pytest.raises(OSError):
        while True:
            os.write(file.fileno(), b"x" * 4096)
    refused = server.client.get("/health/ready")
    assert (refused.status_code, refused.json()["code"]) == (503, "GENERAL::NOT_READY")
    assert server.client.get("/health").status_code == 200
    failed = server.post_sandbox(wait=None)
    assert (failed.status_code, failed.json()["code"]) == (500, "GENERAL::STORE_FULL")
    filler.unlink()
    while server.client.get("/health/ready").status_code != 200:  # it looks twice a second
        pass
    server.delete(server.create()["id"])
