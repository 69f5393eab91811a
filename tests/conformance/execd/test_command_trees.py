"""Kills reach every process of a command where the host lets execd make cgroups; see test_commands.py for the rest."""

import os
import pathlib

import pytest
from test_commands import exit_code, process_gone, run, stream
from test_pty import Pty


def own_cgroup():
    """The directory of our cgroup v2, if it can be written: execd's is the same."""
    path = next((line[3:].strip() for line in open("/proc/self/cgroup") if line.startswith("0::")), None)
    for line in open("/proc/self/mountinfo"):
        before, _, after = line.partition(" - ")
        if path and after.startswith("cgroup2 "):
            directory = pathlib.Path(before.split()[4] + path.rstrip("/"))
            return directory if os.access(directory, os.W_OK) else None
    return None


OWN = own_cgroup()
pytestmark = pytest.mark.skipif(OWN is None, reason="needs a cgroup v2 that can be written")


def escape(fifo):
    """Another session, another parent, no environment, no descriptors, deaf to polite signals; then it tells its pid."""
    os.mkfifo(fifo)
    inner = fifo.parent / "escape.sh"
    inner.write_text(
        f"exec <&- >&- 2>&-\ntrap '' TERM HUP INT\necho $$ > {fifo}\nwhile :; do sleep 1000; done\n"
    )
    return f"(env -i setsid sh -c 'env -i setsid sh {inner} & exit' &)"


def homes(execd):
    """execd's directory, by a command that tells where it is."""
    where = run(execd, "grep ^0:: /proc/self/cgroup")[1]["text"]
    assert "/osb-execd-" in where
    return OWN / pathlib.Path(where[3:]).parent.name


def test_timeout_kills_hidden_processes(execd):
    with stream(execd, escape(execd.tmp / "who") + "; exec sleep 1000", timeout=700) as opened:
        pid = int((execd.tmp / "who").read_text())
        assert exit_code(opened.rest()) == -1
    assert process_gone(pid)


def test_interrupt_kills_hidden_processes(execd):
    with stream(execd, escape(execd.tmp / "who") + "; exec sleep 1000") as opened:
        command_id = opened.next()["text"]
        pid = int((execd.tmp / "who").read_text())
        assert execd.client.delete("/command", params={"id": command_id}).status_code == 200
        assert process_gone(pid)


def test_the_end_of_a_session_kills_hidden_processes(execd):
    session = execd.client.post("/session", json={}).json()["session_id"]
    body = {"command": escape(execd.tmp / "who") + "; sleep 1000"}
    with execd.client.stream("POST", f"/session/{session}/run", json=body) as response:
        assert response.status_code == 200
        pid = int((execd.tmp / "who").read_text())
        assert execd.client.delete(f"/session/{session}").status_code == 200
        response.read()
    assert process_gone(pid)


@pytest.mark.parametrize("query", ["", "?pty=0"], ids=["terminal", "pipes"])
def test_the_end_of_a_terminal_kills_hidden_processes(execd, query):
    terminal = execd.client.post("/pty", json={}).json()["session_id"]
    with Pty(execd, terminal, query) as pty:
        pty.connected()
        pty.type(escape(execd.tmp / "who").encode() + b"\n")
        pid = int((execd.tmp / "who").read_text())
        assert "/osb-execd-" in pathlib.Path(f"/proc/{pid}/cgroup").read_text()
        assert execd.client.delete(f"/pty/{terminal}").status_code == 200
    assert process_gone(pid)


def test_nothing_is_left_behind(start_execd):
    execd = start_execd()
    home = homes(execd)
    for _ in range(100):
        run(execd, ":")
    run(execd, escape(execd.tmp / "who"))
    pid = int((execd.tmp / "who").read_text())
    assert len([d for d in home.iterdir() if d.is_dir()]) in (1, 2)
    execd.stop()
    assert not home.exists()
    assert not os.path.exists(f"/proc/{pid}")  # execd ends all its descendants
    assert process_gone(pid)


def test_leftovers_of_a_killed_execd_are_removed_by_the_next(start_execd):
    execd = start_execd()
    home = homes(execd)
    os.kill(execd.pid, 9)
    assert process_gone(execd.pid)
    assert home.exists()
    other = start_execd()
    assert homes(other) != home
    assert not home.exists()
