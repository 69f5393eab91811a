"""A person starts OpenSandbox on a new machine, loses daemons, stops, starts again: nothing is lost, nothing is hidden."""

import json
import os
import pathlib
import shutil
import signal
import socket
import tempfile

import pytest
from osb_program import osb_binary
from sandboxd_process import binary
from screen import Screen
from server_process import server_binary


@pytest.fixture(autouse=True)
def nothing_left():
    """Replaces the suite's: this service is the person's own."""


@pytest.fixture
def screen(tmp_path):
    """A terminal with the programs installed in one directory, and no configuration."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, program in (("osb", osb_binary()), ("sandboxd", binary("sandboxd")), ("execd", binary("execd")),
                          ("opensandbox-server", server_binary())):
        shutil.copy(program, programs / name)
    with tempfile.TemporaryDirectory(prefix="first-") as directory:  # the names of sockets are short
        os.chmod(directory, 0o755)
        shown = Screen(tmp_path / "home", {"PATH": f"{programs}:/usr/sbin:/usr/bin:/sbin:/bin", "TERM": "xterm-256color"})
        shown.run(f"alias up='osb up --dir {directory}/s' down='osb down --dir {directory}/s'")
        try:
            yield shown
        finally:
            shown.run("down --purge --yes")
            shown.close()


def daemons():
    """The pids of sandboxd and the server in this network namespace; those of other tests are children of this process."""
    ours = os.readlink("/proc/self/ns/net")
    found = {}
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            if os.readlink(path / "ns/net") == ours and parent != os.getpid():
                found[(path / "comm").read_text().strip()] = int(path.name)
        except OSError:
            pass  # it has just ended
    return {name: found[name] for name in ("sandboxd", "opensandbox-ser") if name in found}


def test_from_the_first_command_to_the_last(screen):
    said = screen.run("osb ps", status=1)
    assert "osb up" in said, said

    said = screen.run("up")
    assert "up" in said.lower() and "osb run" in said, said
    assert screen.run("osb run host -- echo hello") == "hello"
    screen.run("osb run -d --name keep -v data:/data host -- sleep infinity")
    screen.run("osb exec keep -- sh -c 'echo in the sandbox > /root/f; echo in the volume > /data/f'")
    screen.run("osb snapshot create keep --name before --wait")

    running = daemons()
    assert set(running) == {"sandboxd", "opensandbox-ser"}
    for pid in running.values():
        os.kill(pid, signal.SIGKILL)
    said = screen.run("osb ps", status=1)
    assert "osb up" in said, said
    screen.run("up")
    assert screen.run("osb exec keep -- cat /root/f /data/f") == "in the sandbox\nin the volume"
    assert "before" in screen.run("osb snapshot list")

    said = screen.run("down")
    assert "keep" in said.lower() and "--purge" in said, said
    screen.run("up")
    assert screen.run("osb exec keep -- cat /root/f") == "in the sandbox"

    screen.type("down --purge")
    screen.expect(r"\[y/N\]|\(y/N\)|yes")
    screen.type("n")
    assert screen.prompt() != 0
    assert screen.run("osb exec keep -- cat /root/f") == "in the sandbox"


def test_a_busy_port_is_named_with_its_holder(screen):
    with socket.create_server(("127.0.0.1", 8080)):
        said = screen.run("up", status=1)
    assert "8080" in said and "--port" in said and f"{os.getpid()}" in said, said


def test_without_a_backend_the_answer_comes_at_once_and_says_so(screen):
    screen.run("up")
    os.kill(daemons()["sandboxd"], signal.SIGKILL)
    said = screen.run("osb run host -- true", status=1)
    assert "sandboxd" in said, said
    assert "sandboxd" in screen.run("osb doctor", status=1)


def test_results_as_a_document(screen):
    screen.run("up")
    screen.run("osb run -o json host -- sh -c 'echo out; echo err >&2; exit 4' > result", status=4)
    result = json.loads((screen.home / "result").read_text())
    assert (result["stdout"], result["stderr"], result["exit_code"]) == ("out\n", "err\n", 4)
