"""Roots and bundles that several parts measure with."""

import io
import json
import shutil
import subprocess
import tarfile

IMAGE = "bench.local/busybox:1"
APPLETS = ("sh", "echo", "sleep", "cat", "ls", "true")
EXECD = ["/bin/execd", "--listen-fd", "3"]  # in roots that have it
STAY = ["sh", "-c", "echo first; exec sleep 1000000"]


def make_root(directory):
    """busybox and its applets: the smallest root that can run a shell. /lines is 1 MiB of 80-byte lines."""
    (directory / "bin").mkdir(parents=True)
    for name in ("etc", "tmp", "proc", "sys", "dev", "root"):
        (directory / name).mkdir()
    shutil.copy(shutil.which("busybox"), directory / "bin" / "busybox")
    for name in APPLETS:
        (directory / "bin" / name).symlink_to("busybox")
    (directory / "lines").write_bytes((b"x" * 79 + b"\n") * ((1 << 20) // 80 + 1))


def root_archive(directory):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.add(directory, ".")
    return out.getvalue()


def import_root(engine, directory):
    """As IMAGE into a container engine."""
    repository, _, tag = IMAGE.rpartition(":")
    engine.ask("POST", "/images/create", params={"fromSrc": "-", "repo": repository, "tag": tag},
               content=root_archive(directory), headers={"Content-Type": "application/x-tar"})


def sandboxd(directory, root, settings=None):
    """A daemon that has the root as IMAGE."""
    from sandboxd_process import Sandboxd
    images = {"allowed_directories": [str(root)]}
    daemon = Sandboxd(directory=directory, settings={"daemon": {"log_level": "warn"}, "images": images,
                                                     **(settings or {})})
    added = daemon.client.post("/v1/images/add-directory", params={"path": str(root), "name": IMAGE})
    if added.status_code != 200:
        daemon.close()
        raise RuntimeError(added.text)
    return daemon


def oci_bundle(bundle, root, command):
    """A bundle as `runc spec` proposes it, on a read-only root, with a network namespace that has loopback only."""
    bundle.mkdir()
    subprocess.run(["runc", "spec"], cwd=bundle, check=True)
    config = json.loads((bundle / "config.json").read_text())
    config["root"] = {"path": str(root), "readonly": True}
    config["process"]["args"] = list(command)
    config["process"]["terminal"] = False
    (bundle / "config.json").write_text(json.dumps(config))
    return bundle
