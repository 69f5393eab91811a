"""Limits that an operator sets: of all sandboxes together, and of requests that name none."""

import json
import os
import subprocess

import pytest

from sandboxd_process import binary

MIB = 1 << 20
HOG = "timeout 60 python3 -c 'x = [bytearray(1 << 20) for _ in range({})]'; exit $?"


def end_message(sandbox, command):
    errors = [event for event in sandbox.events(command) if event["type"] == "error"]
    assert [event.get("reason") for event in errors] == ["OUT_OF_MEMORY"], errors
    return errors[0]["reason_message"]


def test_a_death_by_the_memory_of_all_is_told_from_one_by_its_own(make_daemon):
    daemon = make_daemon(settings={"sandbox": {"total_memory_bytes": 256 * MIB}})
    holder = daemon.create("holder", limits={"memory_bytes": 200 * MIB})
    victim = daemon.create("victim", limits={"memory_bytes": 200 * MIB})
    holder.output("mkfifo /root/wait; mkfifo /root/ready")
    holding = "python3 -c 'x = [bytearray(1 << 20) for _ in range(100)]; open(\"/root/ready\", \"w\"); open(\"/root/wait\")'"
    holder.events(holding, background=True)
    holder.output("timeout 60 cat /root/ready")
    # 100 MiB are held, so the other cannot reach its own 200 MiB.
    message = end_message(victim, HOG.format(190))
    assert "all sandboxes together" in message and "below its limit of 200 MiB" in message, message
    small = daemon.create("small", limits={"memory_bytes": 32 * MIB})
    assert end_message(small, HOG.format(100)) == "out of memory (limit 32 MiB)"
    holder.output("timeout 60 sh -c ': > /root/wait'")


def test_an_entrypoint_that_dies_by_the_memory_of_all_is_told_so(make_daemon):
    daemon = make_daemon(settings={"sandbox": {"total_memory_bytes": 128 * MIB}})
    daemon.create("victim", limits={"memory_bytes": 1024 * MIB},
                  entrypoint=["python3", "-c", "x = [bytearray(1 << 20) for _ in range(500)]"])
    status = daemon.wait_for_end("victim")
    assert status["reason"] == "OUT_OF_MEMORY"
    assert "below its limit of 1 GiB" in status["message"], status


def io_limits(daemon, id):
    """{file: limit} of the sandbox's cgroup, by either version of cgroups."""
    places = {"read": ("blkio.throttle.read_bps_device", "rbps"), "write": ("blkio.throttle.write_iops_device", "wiops")}
    out = {}
    for name, (old, new) in places.items():
        v1 = f"/sys/fs/cgroup/blkio/{daemon.cgroup_parent}/{id}/{old}"
        if os.path.exists(v1):
            lines = open(v1).read().split()
            out[name] = int(lines[1]) if lines else None
        else:
            text = open(f"/sys/fs/cgroup/{daemon.cgroup_parent}/{id}/io.max").read()
            out[name] = int(text.split(f"{new}=")[1].split()[0]) if f"{new}=" in text else None
    return out


def test_rates_of_io_have_defaults_and_maxima(make_daemon):
    daemon = make_daemon(settings={"sandbox": {"default_io_read_bps": 30 * MIB, "max_io_read_bps": 40 * MIB,
                                               "max_io_write_iops": 500}})
    daemon.create("silent")
    assert io_limits(daemon, "silent") == {"read": 30 * MIB, "write": 500}
    daemon.create("asks", limits={"io_read_bps": 40 * MIB, "io_write_iops": 20})
    assert io_limits(daemon, "asks") == {"read": 40 * MIB, "write": 20}
    for limits, name in (({"io_read_bps": 41 * MIB}, "max_io_read_bps"), ({"io_bytes_per_second": 41 * MIB}, "max_io_read_bps"),
                         ({"io_write_iops": 501}, "max_io_write_iops")):
        status, problem = daemon.refused(id="more", limits=limits)
        assert status == 400 and f"[sandbox] {name} of sandboxd" in problem["message"], problem


@pytest.mark.parametrize("settings, message", [
    ({"sandbox": {"default_io_write_bps": 2, "max_io_write_bps": 1}}, "default_io_write_bps = 2 is above max_io_write_bps = 1"),
    ({"sandbox": {"default_disk_bytes": 2 * MIB, "max_disk_bytes": MIB}, "disk": {"image_bytes": 512 * MIB}},
     "default_disk_bytes = 2097152 is above max_disk_bytes = 1048576"),
])
def test_a_default_above_its_maximum_is_refused_at_the_start(tmp_path, settings, message):
    config = tmp_path / "sandboxd.toml"
    config.write_text("".join(f"[{section}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
                              for section, keys in settings.items()))
    ended = subprocess.run([binary("sandboxd"), "--config", config, "--state-dir", tmp_path / "state", "--run-dir", tmp_path],
                           capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1 and message in ended.stderr, ended.stderr


def test_a_maximum_of_the_disk_holds_for_requests_that_name_no_limit(make_daemon):
    daemon = make_daemon(settings={"sandbox": {"max_disk_bytes": 32 * MIB}, "disk": {"image_bytes": 1024 * MIB}})
    code, text = daemon.create("silent").run("head -c 40M /dev/zero > /root/file")
    assert code != 0 and ("No space left" in text or "quota" in text.lower()), text
