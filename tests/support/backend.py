"""Which backend the suites of the server run on: BACKEND=native (default), docker, podman or kubernetes."""

import os

KINDS = ("native", "docker", "podman", "kubernetes")


def backend():
    kind = os.environ.get("BACKEND", "native")
    assert kind in KINDS, f"BACKEND={kind} is none of {KINDS}"
    return kind


def make_daemon(number=0):
    """A backend for a server. Backends in the same network namespace need different numbers."""
    if backend() == "native":
        from sandboxd_process import Sandboxd

        settings = {"images": {"private_registries": ["127.0.0.1:*"]}}  # those of the tests
        if number != 0:
            settings["network"] = {"subnet": f"10.{90 + number}.0.0/16", "table": f"osb_test_{number}",
                                   "interface_prefix": f"osb{number}-"}
        return Sandboxd(settings=settings)
    if backend() == "kubernetes":
        from controller_process import ServedCluster

        return ServedCluster()
    from docker_engine import Engine, Podman

    return (Podman if backend() == "podman" else Engine)(number)
