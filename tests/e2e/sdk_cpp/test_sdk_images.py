"""The C++ SDK's image calls, with a registry and a server that trusts it."""

import os
import subprocess

import pytest

from backend import backend
from registry import PASSWORD, USER, Registry, busybox_layer, docker_archive
from sandboxd_process import Sandboxd
from server_process import Server


@pytest.fixture
def registry(tmp_path):
    running = Registry(tmp_path)
    yield running
    running.close()


@pytest.fixture(scope="session")
def server():
    """Not the one the other files use; nothing_left looks at the test's own."""
    yield None


@pytest.fixture(autouse=True)
def nothing_left():
    yield


@pytest.mark.skipif(backend() != "native", reason="engines keep their images: the server refuses these calls")
def test_images(registry, tmp_path):
    daemon = Sandboxd(settings={"images": {"ca_file": str(registry.ca), "private_registries": [registry.host]}})
    server = Server(daemon)
    try:
        archive = tmp_path / "saved.tar"
        archive.write_bytes(docker_archive("saved:1", [busybox_layer()]))
        image = registry.push("test/pulled:1", [busybox_layer()], compress=True)
        done = subprocess.run([os.environ["SDK_CPP_TEST"], "--gtest_filter=SdkImages.*"], timeout=300,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env={**os.environ, "OPEN_SANDBOX_DOMAIN": f"127.0.0.1:{server.port}",
                                   "OPEN_SANDBOX_API_KEY": server.key, "SDK_TEST_ARCHIVE": str(archive),
                                   "SDK_TEST_REGISTRY_IMAGE": image, "SDK_TEST_REGISTRY_USER": USER,
                                   "SDK_TEST_REGISTRY_PASSWORD": PASSWORD})
        assert done.returncode == 0 and "3 tests from 1 test" in done.stdout, f"{done.stdout}\n{server.log()[-2000:]}"
    finally:
        server.close()
        daemon.close()
