"""Connections that break while the C++ SDK uses them: no event is lost, none comes twice, nothing half counts as whole."""

import os
import subprocess

from cutting_proxy import CuttingProxy


def run(server, proxy, test, **extra):
    environment = {**os.environ, "OPEN_SANDBOX_DOMAIN": f"127.0.0.1:{proxy.port}", "OPEN_SANDBOX_API_KEY": server.key,
                   "SDK_TEST_IMAGE": "host", "SDK_TEST_PROXY": "1", **extra}
    done = subprocess.run([os.environ["SDK_CPP_TEST"], f"--gtest_filter={test}"],
                          env=environment, timeout=300, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0 and "1 test from 1 test" in done.stdout, f"{done.stdout}\n{server.log()[-2000:]}"


def cut_at(marker, places):
    """The answers to requests that hold `marker` end after so many bytes, one after the other."""
    left = list(places)

    def plan(request):
        return left.pop(0) if left and marker in request else None
    return plan, left


def test_a_command_with_a_hundred_thousand_lines(server):
    # The first must let the id through; later ones may break anywhere, also within the head of the answer.
    places = [2_000, 1, 17, 250, 400, 1_000, 4_096, 65_537, 100_000, 1_000_003, 2_000_000, 500, 3]
    plan, left = cut_at(b"/proxy/44772/command", places)
    proxy = CuttingProxy(server.port, plan)
    try:
        run(server, proxy, "SdkLostConnections.LoseNoEventAndDoubleNone", SDK_TEST_CUTS=str(len(places)))
        assert left == [] and proxy.cuts == len(places)
    finally:
        proxy.close()


def test_a_stream_that_may_not_break(server):
    plan, _ = cut_at(b"/proxy/44772/command", [2_000])
    proxy = CuttingProxy(server.port, plan)
    try:
        run(server, proxy, "SdkLostConnections.AreAnErrorWhereTheCallerWantsThat")
    finally:
        proxy.close()


def test_a_terminal(server):
    plan, left = cut_at(b"/ws?since=", [3_000, 5_000, 70_000])
    proxy = CuttingProxy(server.port, plan)
    try:
        run(server, proxy, "SdkLostConnections.OfATerminalLoseNoByte")
        assert left == []
    finally:
        proxy.close()


def test_files(server):
    plan, left = cut_at(b"/files/download", [1_000_000])
    proxy = CuttingProxy(server.port, plan)
    try:
        run(server, proxy, "SdkLostConnections.NeverMakeAHalfFile")
        assert left == []
    finally:
        proxy.close()
