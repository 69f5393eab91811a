import os
import pathlib
import shutil
import subprocess
import sys

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TESTS / "support"), str(TESTS / "privileged" / "attacks")]

if os.geteuid() != 0:
    pytest.exit("these tests need root", returncode=1)

from vault_world import VaultWalls  # noqa: E402

PACKAGES = ("git", "openjdk-17-jre-headless", "libstdc++6")
# Made when a package is installed, so no package has them.
JAVA = ("/usr/bin/java", "/etc/alternatives/java", "/etc/ssl/certs/java/cacerts")


def with_libraries(program):
    """The files of a program that may belong to no package."""
    path = os.path.realpath(shutil.which(program))
    linked = subprocess.run(["ldd", path], capture_output=True, text=True).stdout.split()
    libraries = [word for word in linked if word.startswith("/")]  # mostly links: what they lead to is needed too
    return [path, shutil.which(program), *libraries, *map(os.path.realpath, libraries)]


@pytest.fixture(scope="session")
def vaults(tmp_path_factory):
    made = VaultWalls(tmp_path_factory.mktemp("vault"), PACKAGES, (*JAVA, *with_libraries("node")))
    yield made
    made.close()
