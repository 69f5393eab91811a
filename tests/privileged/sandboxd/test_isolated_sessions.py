"""Isolated sessions that sandboxd makes for a sandbox's execd: confinement, crashes of sandboxd, hostile requests."""

import concurrent.futures
import json
import os
import pathlib
import socket

import pytest

BASE = "/v1/isolated"


@pytest.fixture
def sandbox(daemon):
    made = daemon.create("isolating", isolated_sessions=True, limits={"memory_bytes": 256 << 20, "pids": 200})
    yield made
    daemon.remove("isolating")


def make(sandbox, **body):
    response = sandbox.execd.post(f"{BASE}/session", json={"workspace": {"path": "/workspace"}, **body})
    assert response.status_code == 201, response.text
    return response.json()["session_id"]


def run(sandbox, session, code):
    response = sandbox.execd.post(f"{BASE}/session/{session}/run", json={"code": code})
    assert response.status_code == 200, response.text
    events = [json.loads(line) for line in response.text.split("\n\n") if line]
    return [event["text"] for event in events if event["type"] == "stdout"]


def namespace(process, kind):
    try:
        return os.readlink(process / "ns" / kind)
    except OSError:
        return None  # it has ended


def test_a_sandbox_has_none_unless_it_was_created_with_them(daemon):
    plain = daemon.create("plain")
    answer = plain.execd.get(f"{BASE}/capabilities").json()
    assert answer["available"] is False and answer["message"]
    assert plain.execd.post(f"{BASE}/session", json={"workspace": {"path": "/workspace"}}).status_code == 503
    daemon.remove("plain")


def test_a_session_is_confined_like_the_sandbox(sandbox):
    session = make(sandbox)
    for line in ("CapBnd", "NoNewPrivs", "Seccomp"):
        ask = f"grep -E '^{line}:' /proc/self/status | cut -f2"
        inside, plain = run(sandbox, session, ask)[0], sandbox.output(ask)
        assert int(inside, 16) & ~int(plain, 16) == 0 if line == "CapBnd" else inside == plain, line
    for ask in ("cat /proc/1/oom_score_adj", "ulimit -a", "cat /proc/self/uid_map"):
        assert run(sandbox, session, ask) == sandbox.output(ask).splitlines(), ask
    # Its first process, seen from the host: the sandbox's cgroups, and its user, network and no other namespaces.
    inside = run(sandbox, session, "readlink /proc/self/ns/pid")[0]
    first = next(path for path in pathlib.Path("/proc").iterdir() if path.name.isdigit() and namespace(path, "pid") == inside)
    outer = pathlib.Path(f"/proc/{sandbox.status['pid']}")
    assert (first / "cgroup").read_text() == (outer / "cgroup").read_text()
    for kind in ("user", "net"):
        assert namespace(first, kind) == namespace(outer, kind), kind
    for kind in ("mnt", "ipc", "uts", "pid"):
        assert namespace(first, kind) != namespace(outer, kind), kind


def test_no_process_of_the_sandbox_is_a_way_around_its_filter(sandbox):
    """The process that makes a session is in the sandbox for a moment with more rights; those stay in it."""
    session = make(sandbox)
    assert "not permitted" in " ".join(run(sandbox, session, "unshare -U true 2>&1; unshare -m true 2>&1"))
    assert sandbox.run("unshare -U true")[0] != 0 and sandbox.run("mount -t tmpfs none /mnt")[0] != 0


def test_user_namespaces_are_for_sessions_alone(sandbox):
    """The sandbox's limit of user namespaces is 0 again when the session is made, also when many are made at once."""
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        sessions = list(pool.map(lambda uid: make(sandbox, uid=uid, uid_mode="userns"), range(1000, 1008)))
    for uid, session in zip(range(1000, 1008), sessions):
        assert run(sandbox, session, "id -u; grep CapEff /proc/self/status | cut -f2") == [str(uid), "0" * 16]
    assert sandbox.output("cat /proc/sys/user/max_user_namespaces") == "0"
    assert run(sandbox, sessions[0], "unshare -U true 2>/dev/null || echo refused") == ["refused"]


def test_sessions_survive_sandboxd(daemon, sandbox):
    session = make(sandbox)
    run(sandbox, session, "export A=kept; echo kept > file")
    daemon.kill()
    assert run(sandbox, session, "echo $A; cat file") == ["kept", "kept"]
    refused = sandbox.execd.post(f"{BASE}/session", json={"workspace": {"path": "/workspace"}})
    assert refused.status_code == 503, refused.text
    daemon.start()
    daemon.wait_for("isolating", lambda status: status is not None)
    assert run(sandbox, session, "echo $A") == ["kept"]
    other = make(sandbox)
    assert run(sandbox, other, "ls") == []


def test_hostile_requests(daemon, sandbox):
    directory = next(directory for directory, _, files in os.walk(daemon.directory) if "session.sock" in files)
    for data in (b"", b"S", b"\0" * 4000):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
            fd = os.open(directory, os.O_PATH)
            client.connect(f"/proc/self/fd/{fd}/session.sock")
            os.close(fd)
            if data:
                client.send(data)
            else:
                client.shutdown(socket.SHUT_WR)
            client.settimeout(60)
            assert client.recv(100)[:1] in (b"f", b"l", b"")
    # Descriptors that are no description.
    for content in (b"", b"x" * 100, b"\xff" * 100, os.urandom(2 << 20)):
        memory = os.memfd_create("hostile")
        os.write(memory, content)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
            fd = os.open(directory, os.O_PATH)
            client.connect(f"/proc/self/fd/{fd}/session.sock")
            os.close(fd)
            socket.send_fds(client, [b"S"], [memory])
            client.settimeout(60)
            assert client.recv(4096)[:1] == b"l"
        os.close(memory)
    assert make(sandbox), "none of this has hurt"
