"""For all suites."""

import functools
import shutil
import ssl
import tempfile

import certifi
import pytest


def share_tls_context():
    """httpx reads the list of all authorities for every client, 15 ms of processor time, and nearly every client here
    speaks plain HTTP to a program on this machine: one context serves all that ask for nothing else."""
    make = ssl.create_default_context

    @functools.cache
    def usual():
        return make(cafile=certifi.where())

    def create(*args, **options):
        return usual() if not args and options == {"cafile": certifi.where()} else make(*args, **options)

    ssl.create_default_context = create


share_tls_context()


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
