"""The C++ SDK's own suite against the real server, straight to the sandboxes and through the server's proxy."""

import os
import subprocess

import pytest


@pytest.mark.parametrize("proxied", [False, True], ids=["direct", "proxy"])
def test_suite(server, proxied):
    environment = {**os.environ, "OPEN_SANDBOX_DOMAIN": f"127.0.0.1:{server.port}", "OPEN_SANDBOX_API_KEY": server.key,
                   "SDK_TEST_IMAGE": "host", "SDK_TEST_PROXY": "1" if proxied else "0"}
    # The rest has files of its own here.
    chosen = "--gtest_filter=-SdkImages.*:SdkLostConnections.*:SdkOtherServers.*"
    done = subprocess.run([os.environ["SDK_CPP_TEST"], chosen, "--gtest_brief=1"], env=environment, timeout=600,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, f"{done.stdout}\n{server.log()[-2000:]}"
