"""Sockets without a file: only the network namespace separates them, and a sandbox may have the host's."""

import ctypes
import os
import socket

import pytest

from attack import attack

pytestmark = pytest.mark.wall("Network namespace, Landlock in the host's network", second="credentials that the peer checks")


def landlock_version():
    return ctypes.CDLL(None).syscall(444, None, 0, 1)


@pytest.fixture
def listeners():
    """Sockets of a daemon of the host, one of each kind, under one name."""
    made = []
    name = f"\0osb-test-{os.getpid()}"
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM):
        each = socket.socket(socket.AF_UNIX, kind)
        each.bind(name + str(int(kind)))
        if kind != socket.SOCK_DGRAM:
            each.listen()
        made.append(each)
    yield name
    for each in made:
        each.close()


PROGRAM = """
def reach(kind):
    with socket.socket(socket.AF_UNIX, kind) as one:
        one.connect(name + str(kind))
        one.send(b'x')
        return 'reached'
def send(kind):
    with socket.socket(socket.AF_UNIX, kind) as one:
        return one.sendto(b'x', name + str(kind))
def inside(kind):
    with socket.socket(socket.AF_UNIX, kind) as listener, socket.socket(socket.AF_UNIX, kind) as one:
        listener.bind('\\0osb-test-inside')
        if kind != 2:
            listener.listen()
        one.connect('\\0osb-test-inside')
        return one.send(b'x')
report([attempt(reach, 1), attempt(reach, 5), attempt(reach, 2), attempt(send, 2), attempt(inside, 1), attempt(inside, 2)])
"""


@pytest.mark.attack(on="native")
def test_a_sandbox_does_not_reach_abstract_sockets_of_the_host(make_daemon, listeners):
    sandbox = make_daemon().create("attacker")
    assert attack(sandbox, PROGRAM, name=listeners) == ["ECONNREFUSED"] * 4 + [1, 1]


@pytest.mark.attack(on="native")
@pytest.mark.skipif(landlock_version() < 6, reason="this kernel's Landlock has no scopes (Linux 6.12)")
def test_a_sandbox_in_the_host_s_network_does_not_reach_them_either(make_daemon, listeners):
    sandbox = make_daemon(settings={"sandbox": {"allow_host_network": True}}).create("attacker", network="host")
    assert attack(sandbox, PROGRAM, name=listeners) == ["EPERM"] * 4 + [1, 1]
