import os
import pathlib
import sys

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TESTS / "support"), str(TESTS / "privileged" / "attacks")]

if os.geteuid() != 0:
    pytest.exit("these tests need root", returncode=1)

from vault_world import vaults  # noqa: E402, F401
