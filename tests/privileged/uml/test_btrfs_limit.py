"""The disk limit of a sandbox, on a state directory that is a btrfs as a whole. This kernel has no simple quotas (6.7)."""

import subprocess

import pytest

from test_disk_limit import (MIB, test_a_default_for_all, test_a_sandbox_cannot_write_more_than_its_limit,  # noqa: F401
                             test_a_sandbox_without_a_limit_of_its_own_has_the_default, test_the_limit_holds_after_a_kill)


@pytest.fixture(scope="session", autouse=True)  # before the daemon looks at the disk
def quotas():
    subprocess.run(["btrfs", "quota", "enable", "/var/lib/opensandbox"], check=True)


def groups():
    """Quota groups of subvolumes, with the file system's own tool."""
    shown = subprocess.run(["btrfs", "qgroup", "show", "--sync", "-r", "/var/lib/opensandbox"], check=True, capture_output=True,
                           text=True).stdout
    return {line.split()[0]: line.split()[3] for line in shown.splitlines() if line.startswith("0/")}


def test_a_volume_on_btrfs_has_a_limit_that_goes_with_it(daemon, create):
    before = groups()
    volume = {"kind": "named", "source": "full", "target": "/data", "create": True}
    sandbox = create("writer", volumes=[volume])
    made = groups().keys() - before.keys()
    assert made and all(groups()[each] != "none" for each in made), "the volume has a limit"
    code, text = sandbox.run("dd if=/dev/zero of=/data/file bs=1M count=100")
    assert code != 0 and ("No space left" in text or "quota" in text), text
    assert sandbox.output("echo room > /root/file; cat /root/file") == "room"
    assert daemon.client.delete("/v1/sandboxes/writer").status_code == 204
    assert daemon.client.delete("/v1/volumes/full").status_code == 204


def test_directories_count_on_btrfs(create):
    limited, neighbour = create("many", limits={"disk_bytes": MIB}), create("neighbour")
    text = limited.run("mkdir /root/many && cd /root/many && seq 5000 | xargs mkdir 2>&1 | tail -1; ls | wc -l")[1]
    assert "No space left" in text or "quota" in text, text
    assert neighbour.output("mkdir /root/one && echo room > /root/one/file && cat /root/one/file") == "room"


def test_check_names_quota_groups(daemon):
    out = subprocess.run([daemon.process.args[0], "check", "--config", daemon.config], capture_output=True, text=True)
    line = next(line for line in out.stdout.splitlines() if "disk limit" in line)
    assert "btrfs quota groups" in line, out.stdout
