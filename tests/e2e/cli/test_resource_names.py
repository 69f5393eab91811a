"""The names of --resource that --help shows are those that the server knows."""

import re

import pytest


@pytest.mark.parametrize("words", [["run"], ["sandbox", "create"]])
def test_help_lists_every_limit_that_the_server_knows(osb, words):
    said = " ".join(osb.refused("run", "--resource", "nonsense=1", "host", "--", "true").split())
    names = re.search(r"Known limits: ([a-z, -]+[a-z])", said)[1].split(", ")
    assert len(names) > 10 and {"pids", "ephemeral-storage", "io-write-iops", "network-send-bps"} <= set(names)
    help = " ".join(osb.ok(*words, "--help").split())
    assert f"Names: {', '.join(names)}." in help, help
