"""Runs the official JavaScript SDK's suites (*.test.mjs, node's own test runner) against an execd: straight, and
through its own port proxy, where Docker's bridge mode sends all SDK traffic."""

import os
import pathlib

import pytest

from node_suite import run_node_suite

HERE = pathlib.Path(__file__).resolve().parent


@pytest.mark.parametrize("proxied", [False, True], ids=["direct", "proxy"])
@pytest.mark.parametrize("suite", sorted(HERE.glob("*.test.mjs")), ids=lambda path: path.name.split(".")[0])
def test_the_sdk_works(token_execd, suite, proxied):
    base_url = token_execd.url + (f"/proxy/{token_execd.port}" if proxied else "")
    environment = {
        **os.environ,
        "EXECD_BASE_URL": base_url,
        "EXECD_TOKEN": token_execd.token,
        "EXECD_TMP": str(token_execd.tmp),
        "NO_PROXY": "127.0.0.1",
    }
    run_node_suite(suite, environment, token_execd.tmp)
