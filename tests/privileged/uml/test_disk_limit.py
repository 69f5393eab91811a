"""The disk limit of a sandbox, on a file system with project quotas."""

import pathlib
import subprocess

import pytest

MIB = 1 << 20


def used_projects():
    """Projects that something counts for or that have a limit, as the file system's own tool sees them."""
    report = subprocess.run(["xfs_quota", "-f", "-x", "-c", "report -p -n -b -N", "/var/lib/opensandbox"], check=True,
                            capture_output=True, text=True).stdout
    rows = [line.split() for line in report.splitlines() if line.strip()]
    return {row[0] for row in rows if row[0] != "#0" and (row[1] != "0" or row[3] != "0")}


def test_a_sandbox_cannot_write_more_than_its_limit(daemon, create):
    limited = create("limited", limits={"disk_bytes": 16 * MIB})
    free = create("free")
    code, text = limited.run("dd if=/dev/zero of=/root/file bs=1M count=24")
    assert code != 0 and ("No space left" in text or "quota" in text), text
    assert int(limited.output("stat -c %s /root/file")) <= 16 * MIB
    # Neither by another place that it can write to, nor by its log.
    code, text = limited.run("dd if=/dev/zero of=/var-file bs=1M count=2")
    assert code != 0, text
    assert free.output("dd if=/dev/zero of=/root/file bs=1M count=24 2>/dev/null; stat -c %s /root/file") == str(24 * MIB)
    # Full, it can still be paused, resumed, emptied and used.
    assert daemon.client.post("/v1/sandboxes/limited/pause").status_code == 204
    assert daemon.client.post("/v1/sandboxes/limited/resume").status_code == 204
    assert limited.output("rm -f /root/file /var-file; echo room > /root/file; cat /root/file") == "room"


def test_the_sandbox_cannot_leave_its_limit(create):
    limited = create("prison", limits={"disk_bytes": 8 * MIB})
    code, text = limited.run("mkdir /root/free && chattr -p 0 /root/free")
    assert code != 0 and "while setting project" in text, text
    code, text = limited.run("dd if=/dev/zero of=/root/free/file bs=1M count=12")
    assert code != 0, text


def project_of(path):
    return "#" + subprocess.run(["lsattr", "-p", "-d", path], check=True, capture_output=True, text=True).stdout.split()[0]


def test_the_limit_goes_with_the_sandbox(daemon, create):
    create("goes", limits={"disk_bytes": 8 * MIB}).output("echo x > /root/file")
    project = project_of(daemon.state / "sandboxes" / "goes" / "tree")
    assert project in used_projects()
    daemon.kill()  # also when another daemon removes it
    daemon.start()
    assert daemon.client.delete("/v1/sandboxes/goes").status_code == 204
    daemon.stop()  # its trash is empty
    assert project not in used_projects()
    # Nor do directories that were made ahead leave limits behind.
    count = len(used_projects())
    for _ in range(2):
        daemon.start()
        daemon.stop()
    assert len(used_projects()) <= count
    daemon.start()


def test_a_sandbox_cannot_make_more_files_than_its_limit(create):
    limited, neighbour = create("many", limits={"disk_bytes": 16 * MIB}), create("neighbour")
    code, text = limited.run("mkdir /root/many && cd /root/many && seq 12000 | xargs mkdir 2>&1 | tail -1; ls | wc -l")
    assert "No space left" in text or "quota" in text, text
    assert int(text.split()[-1]) < 10_000
    assert neighbour.output("mkdir /root/one && echo room > /root/one/file && cat /root/one/file") == "room"
    assert limited.output("rm -r /root/many && mkdir /root/one && echo room") == "room"


def test_a_named_volume_has_a_limit(daemon, create):
    # A quarter of the disk.
    volume = {"kind": "named", "source": "full", "target": "/data", "create": True}
    sandbox = create("writer", volumes=[volume])
    code, text = sandbox.run("dd if=/dev/zero of=/data/file bs=1M count=100")
    assert code != 0 and ("No space left" in text or "quota" in text), text
    assert sandbox.output("echo room > /root/file; cat /root/file") == "room"
    project = project_of(daemon.state / "volumes" / "full")
    assert daemon.client.delete("/v1/sandboxes/writer").status_code == 204
    assert daemon.client.delete("/v1/volumes/full").status_code == 204
    assert project not in used_projects()


def test_a_sandbox_without_a_limit_of_its_own_has_the_default(create):
    code, text = create("default").run("dd if=/dev/zero of=/root/file bs=1M count=100")
    assert code != 0 and ("No space left" in text or "quota" in text), text


def test_the_limit_holds_after_a_kill(daemon, create):
    limited = create("held", limits={"disk_bytes": 16 * MIB})
    daemon.kill()
    code, text = limited.run("dd if=/dev/zero of=/root/file bs=1M count=24")
    assert code != 0, text
    daemon.start()
    code, text = limited.run("dd if=/dev/zero of=/root/other bs=1M count=24")
    assert code != 0, text


def test_a_default_for_all(daemon, create):
    config = pathlib.Path(daemon.config)
    before = config.read_text()
    try:
        config.write_text(before.replace("[sandbox]\n", f"[sandbox]\ndefault_disk_bytes = {8 * MIB}\n"))
        daemon.stop()
        daemon.start()
        code, text = create("default").run("dd if=/dev/zero of=/root/file bs=1M count=12")
        assert code != 0, text
    finally:
        daemon.remove_all()
        config.write_text(before)
        daemon.stop()
        daemon.start()


def test_check_says_so(daemon):
    out = subprocess.run([daemon.process.args[0], "check", "--config", daemon.config], capture_output=True, text=True)
    line = next(line for line in out.stdout.splitlines() if "disk limit" in line)
    assert "bytes and inodes, by project quota" in line, out.stdout
