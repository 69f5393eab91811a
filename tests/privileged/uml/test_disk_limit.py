"""The disk limit of a sandbox, on a file system with project quotas."""

import pathlib
import subprocess

import pytest

MIB = 1 << 20


def used_projects():
    """Projects that something counts for or that have a limit, as the file system's own tool sees them."""
    report = subprocess.run(["xfs_quota", "-x", "-c", "report -p -n -b -N", "/var/lib/opensandbox"], check=True,
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


def test_the_limit_goes_with_the_sandbox(daemon, create):
    create("goes", limits={"disk_bytes": 8 * MIB}).output("echo x > /root/file")
    assert len(used_projects()) == 1
    daemon.kill()  # also when another daemon removes it
    daemon.start()
    assert daemon.client.delete("/v1/sandboxes/goes").status_code == 204
    daemon.stop()  # its trash is empty
    assert used_projects() == set()
    daemon.start()


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
    assert "by project quota" in line, out.stdout
