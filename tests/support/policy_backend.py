"""A backend that enforces network policies and asks the resolver of tests/support/fake_internet.py."""

import os
import pathlib

from backend import backend
from fake_internet import RESOLVER

ROOT = pathlib.Path(__file__).resolve().parents[2]


def egress_program():
    return os.environ.get("EGRESS_BINARY") or str(ROOT / "build" / "release" / "bin" / "opensandbox-egress")


def make_policy_daemon():
    """The backend, and the settings that a server on it needs."""
    if backend() == "native":
        from sandboxd_process import Sandboxd

        return Sandboxd(settings={"egress": {"resolvers": [f"{RESOLVER}:53"], "program": egress_program()},
                                  "images": {"private_registries": ["127.0.0.1:*"]}}), {}
    from docker_engine import EGRESS_IMAGE, Engine, Podman

    daemon = (Podman if backend() == "podman" else Engine)(0)
    daemon.load_egress()
    return daemon, {"egress": {"image": EGRESS_IMAGE, "dns_upstream": [RESOLVER]}}
