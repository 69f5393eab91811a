"""sandboxd in the machine of run_in_uml.py: pure cgroup v2, an older kernel, no network."""

import pathlib
import re
import shutil
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))

import host_state  # noqa: E402
from sandboxd_process import Sandboxd  # noqa: E402


def copy_program(name, root):
    """A program of the host, with its libraries."""
    program = shutil.which(name)
    libraries = re.findall(r"(/\S+) \(0x", subprocess.run(["ldd", program], check=True, capture_output=True,
                                                          text=True).stdout)
    for path in [program, *libraries]:
        copy = root / path.lstrip("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)


@pytest.fixture(scope="session")
def daemon():
    root = pathlib.Path("/var/lib/opensandbox/busybox")
    (root / "bin").mkdir(parents=True)
    (root / "root").mkdir()
    shutil.copy(shutil.which("busybox"), root / "bin" / "busybox")
    subprocess.run(["busybox", "--install", "-s", root / "bin"], check=True)
    for link in (root / "bin").iterdir():
        if link.is_symlink():
            link.unlink()
            link.symlink_to("busybox")
    copy_program("chattr", root)
    # Without image host: hostfs keeps a descriptor of the machine's own process for each directory that sandboxd looks at.
    running = Sandboxd(directory="/var/lib/opensandbox",
                       settings={"sandbox": {"allow_host_network": True, "allow_host_image": False},
                                 "images": {"allowed_directories": [str(root)]}})
    answer = running.client.post(f"/v1/images/add-directory?path={root}&name=busybox")
    assert answer.status_code == 200, answer.text
    yield running
    running.close()


@pytest.fixture(autouse=True)
def nothing_left(daemon):
    yield
    daemon.remove_all()
    host_state.wait_for_empty(daemon.state / "trash")
    assert not any(host_state.files(daemon).values())
    assert host_state.cgroups(daemon) == host_state.processes(daemon) == set()


@pytest.fixture(scope="session")
def create(daemon):
    def make(id, network="none", **fields):
        # Not from the host's own files: they come through hostfs, which cannot be idmapped.
        return daemon.create(id, image="busybox", network=network, **fields)
    return make
