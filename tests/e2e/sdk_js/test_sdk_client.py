"""Runs the official JavaScript SDK's suites (*.test.mjs, node's own test runner) against the server, straight to the
sandboxes and through the server's proxy."""

import os
import pathlib

import pytest

from node_suite import run_node_suite

HERE = pathlib.Path(__file__).resolve().parent


@pytest.mark.parametrize("proxied", [False, True], ids=["direct", "proxy"])
@pytest.mark.parametrize("suite", sorted(HERE.glob("*.test.mjs")), ids=lambda path: path.name.split(".")[0])
def test_the_sdk_works(server, suite, proxied):
    environment = {
        **{name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")},
        "SERVER_DOMAIN": f"127.0.0.1:{server.port}",
        "SERVER_KEY": server.key,
        "SERVER_PROXY": "1" if proxied else "",
    }
    run_node_suite(suite, environment, server.directory, server.log)
