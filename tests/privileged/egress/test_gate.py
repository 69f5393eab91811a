"""The gate of a sandbox on Docker: its first program starts when the sidecar enforces the policy, whichever comes first."""

import os
import signal
import socket
import subprocess

from conftest import OTHER

DNS, GATE = 15353, 15354


def start_gate(tmp_path):
    """execd as the entrypoint of a container; its program tries to leave at once."""
    probe = f"import socket\nwith socket.socket() as s:\n print(s.connect_ex(('{OTHER}', 80)) == 0, flush=True)"
    return subprocess.Popen([os.environ["EXECD_BINARY"], "--wait-for-policy", "/usr/bin/python3", "-c", probe],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_until_waiting(gate):
    """Until the process sleeps in accept()."""
    while True:
        assert gate.poll() is None, gate.stderr.read()
        with open(f"/proc/{gate.pid}/syscall") as file:
            if file.read().split()[0] in ("43", "288", "202", "242"):  # accept and accept4 of x86-64 and arm64
                return


def test_a_gate_that_comes_first_waits_for_the_sidecar(sidecar, tmp_path):
    gate = start_gate(tmp_path)
    wait_until_waiting(gate)
    sidecar()
    assert gate.communicate(timeout=60)[0] == "False\n" and gate.returncode == 0


def test_a_gate_that_comes_later_finds_the_sidecar(sidecar, tmp_path):
    sidecar()
    gate = start_gate(tmp_path)
    assert gate.communicate(timeout=60)[0] == "False\n" and gate.returncode == 0


def test_both_at_once(sidecar, tmp_path):
    for _ in range(5):
        running = sidecar(wait=False)
        gate = start_gate(tmp_path)
        assert gate.communicate(timeout=60)[0] == "False\n"
        running.stop(signal.SIGKILL)


def test_a_gate_without_a_sidecar_stays_closed_and_ends_when_it_is_told_to(internet, tmp_path):
    gate = start_gate(tmp_path)
    wait_until_waiting(gate)
    gate.terminate()
    assert gate.communicate(timeout=60) == ("", "") and gate.returncode == -signal.SIGTERM


def test_a_gate_whose_port_is_taken_does_not_open(internet, tmp_path):
    with socket.create_server(("127.0.0.1", GATE)):
        gate = start_gate(tmp_path)
        out, error = gate.communicate(timeout=60)
    assert (out, gate.returncode) == ("", 1) and "port 15354" in error


def test_a_gate_does_not_take_its_own_connection_for_the_sidecar(internet, tmp_path):
    """A socket can connect to itself when the kernel chooses the port that it is to connect to."""
    path = "/proc/sys/net/ipv4/ip_local_port_range"
    with open(path) as file:
        before = file.read()
    try:
        with open(path, "w") as file:
            file.write(f"{DNS} {DNS}")
        gate = start_gate(tmp_path)
        wait_until_waiting(gate)
    finally:
        with open(path, "w") as file:
            file.write(before)
    gate.kill()
    assert gate.communicate(timeout=60)[0] == ""


def test_a_program_that_holds_the_gates_port_does_not_stop_a_sidecar(sidecar, tmp_path):
    """After the sandbox has started, its programs may listen there and accept nothing."""
    with socket.create_server(("127.0.0.1", GATE), backlog=0) as listener:
        held = []
        for _ in range(4):
            held.append(socket.socket())
            held[-1].setblocking(False)
            held[-1].connect_ex(listener.getsockname())
        sidecar()
        for each in held:
            each.close()
