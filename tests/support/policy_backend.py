"""A backend that enforces network policies and asks the resolver of tests/support/fake_internet.py."""

import os
import pathlib

from backend import backend
from fake_internet import RESOLVER

ROOT = pathlib.Path(__file__).resolve().parents[2]


def egress_program():
    return os.environ.get("EGRESS_BINARY") or str(ROOT / "build" / "release" / "bin" / "opensandbox-egress")


def make_policy_daemon(number=0, egress=None):
    """The backend, and the settings that a server on it needs. Further ones in the same network namespace have numbers;
    `egress` are settings of sandboxd."""
    if backend() == "native":
        from sandboxd_process import Sandboxd

        settings = {"egress": {"resolvers": [f"{RESOLVER}:53"], "program": egress_program(), **(egress or {})},
                    "images": {"private_registries": ["127.0.0.1:*"]}}
        if number:
            # Rules tell the egress process apart by its user.
            settings["network"] = {"subnet": f"10.{90 + number}.0.0/16", "table": f"osb_test_{number}",
                                   "interface_prefix": f"osb{number}-", "first_id": (16 + 8192 * number) * 65536}
        return Sandboxd(settings=settings), {}
    from docker_engine import Engine, Podman

    daemon = (Podman if backend() == "podman" else Engine)(number)
    daemon.load_egress()
    return daemon, sidecar_settings()


def sidecar_settings():
    """The settings that a server on containers needs."""
    from docker_engine import EGRESS_IMAGE

    return {"egress": {"image": EGRESS_IMAGE, "dns_upstream": [RESOLVER]}}
