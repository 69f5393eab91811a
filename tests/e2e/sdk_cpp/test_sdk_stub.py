"""The C++ SDK against what the contract allows and no server here does."""

import os
import subprocess

import pytest

from stub_server import Stub


@pytest.fixture(scope="session")
def server():
    """None is needed."""
    yield None


@pytest.fixture(autouse=True)
def nothing_left():
    yield


def test_other_servers():
    stub = Stub()
    try:
        done = subprocess.run([os.environ["SDK_CPP_TEST"], "--gtest_filter=SdkOtherServers.*"], timeout=120,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env={**os.environ, "OPEN_SANDBOX_DOMAIN": f"http://127.0.0.1:{stub.port}/v1/",
                                   "OPEN_SANDBOX_API_KEY": "the-key"})
        assert done.returncode == 0 and "11 tests from 1 test" in done.stdout, done.stdout
        for request in stub.requests:
            to_server = request["path"].startswith("/v1/")
            assert (request["headers"].get("open-sandbox-api-key") == "the-key") == to_server, request
            assert request["headers"]["user-agent"].startswith("OpenSandbox-Cpp-SDK/")
            assert request["headers"]["x-mine"] == "1"
            if request["path"].startswith("/execd"):
                assert request["headers"]["x-execd-access-token"] == "t"
            if request["path"].startswith("/egress"):
                assert request["headers"]["opensandbox-egress-auth"] == "e"
        asked = {(r["method"], r["path"]): r["body"] for r in stub.requests}
        assert asked["POST", "/v1/sandboxes"] == {
            "image": {"uri": "x", "auth": {"username": "u", "password": "p"}}, "entrypoint": ["tail", "-f", "/dev/null"],
            "timeout": 600, "resourceLimits": {"cpu": "1", "memory": "2Gi"}, "env": {"A": "b"},
            "networkPolicy": {"defaultAction": "deny", "egress": [{"action": "allow", "target": "*.x.org"}]},
            "volumes": [{"name": "v", "mountPath": "/v", "readOnly": True, "pvc": {"claimName": "c"}}],
            "platform": {"os": "linux", "arch": "arm64"}}
        assert asked["POST", "/execd/44772/code"] == {"code": "fail", "context": {"id": "c1", "language": "python"}}
        assert asked["PATCH", "/egress/18080/credential-vault"] == {
            "expectedRevision": 99, "credentials": {"delete": ["x"]}}
        assert [r["body"][0]["src"] for r in stub.requests if r["path"].endswith("/files/mv")] == ["/woken", "/woken", "/never"]
        # Entries of the operator go to the server, which fetches their values.
        assert asked["PATCH", "/v1/sandboxes/box/credential-vault"] == {
            "credentials": {"add": [{"name": "m", "source": {"type": "operator", "entry": "model-key"}}]},
            "bindings": {"add": [{"name": "b", "match": {"hosts": ["api.example.com"]}, "auth": {
                "type": "passthrough",
                "substitutions": [{"credential": "m", "placeholder": "__KEY__", "in": ["query", "body"]}]}}]}}
        # Pending at first, and nothing but /ping says when that is over.
        assert stub.pings >= 3
    finally:
        stub.close()
