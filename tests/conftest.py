"""For all suites."""

import shutil
import tempfile

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    """Temporary files of each run in a directory of their own: suites run beside each other, and pytest closes the one
    it would share (0700) whenever another run begins, also to users that a test has let in."""
    config.own_temp = None
    if config.option.basetemp is None:
        config.own_temp = config.option.basetemp = tempfile.mkdtemp(prefix="pytest-")


def pytest_unconfigure(config):
    if config.own_temp:
        shutil.rmtree(config.own_temp, ignore_errors=True)
