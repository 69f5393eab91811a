"""Images made by hand, and Debian's docker-registry on loopback to fetch them from."""

import gzip
import hashlib
import io
import json
import os
import pathlib
import platform
import re
import ssl
import subprocess
import tarfile

import httpx

PROGRAM = "/usr/bin/docker-registry"
USER, PASSWORD = "puller", "s:ecret"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def digest_of(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def architecture():
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def tar(entries):
    """A layer: {name: content or a function that changes the tarfile.TarInfo}, in order. None is a directory."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in entries.items():
            info = tarfile.TarInfo(name)
            data = b""
            if content is None:
                info.type, info.mode = tarfile.DIRTYPE, 0o755
            elif callable(content):
                content(info)
            else:
                data = content.encode() if isinstance(content, str) else content
                info.mode = 0o755
                info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def symlink(target):
    def change(info):
        info.type, info.linkname = tarfile.SYMTYPE, target
    return change


def hard_link(target):
    def change(info):
        info.type, info.linkname = tarfile.LNKTYPE, target
        info.mode = 0o755  # engines give it to the file
    return change


def device(major, minor, block=False):
    def change(info):
        info.type = tarfile.BLKTYPE if block else tarfile.CHRTYPE
        info.devmajor, info.devminor, info.mode = major, minor, 0o666
    return change


def busybox_layer(**more):
    """A root that can run a shell; `more` are further entries, "/" written as "__"."""
    entries = {"bin": None, "bin/busybox": pathlib.Path("/bin/busybox").read_bytes()}
    for name in ("sh", "cat", "ls", "id", "env", "sleep", "echo", "pwd", "stat", "touch", "rm", "mkdir", "true", "kill",
                 "test", "find", "head"):
        entries[f"bin/{name}"] = hard_link("bin/busybox")
    entries |= {"etc": None, "tmp": None, "root": None,
                "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nworker:x:1234:1235:w:/home/worker:/bin/sh\n",
                "etc/group": "root:x:0:\nworker:x:1235:\nextra:x:77:worker\n"}
    return tar(entries | {name.replace("__", "/"): content for name, content in more.items()})


def image_config(layers, **config):
    return json.dumps({"os": "linux", "architecture": architecture(), "config": {"Cmd": ["sh"], **config},
                       "rootfs": {"type": "layers", "diff_ids": [digest_of(layer) for layer in layers]}}).encode()


def docker_archive(name, layers, **config):
    """An archive in the form of `docker save`."""
    settings = image_config(layers, **config)
    files = {f"{digest_of(settings)[7:]}.json": settings}
    for layer in layers:
        files[f"{digest_of(layer)[7:]}/layer.tar"] = layer
    files["manifest.json"] = json.dumps([{
        "Config": f"{digest_of(settings)[7:]}.json", "RepoTags": [name],
        "Layers": [f"{digest_of(layer)[7:]}/layer.tar" for layer in layers]}])
    return tar(files)


class Registry:
    """TLS with a certificate of its own (`ca`), and one user: USER with PASSWORD. `host` is its name in references."""

    def __init__(self, directory, tls=True, address="127.0.0.1"):
        self.directory = pathlib.Path(directory)
        self.ca = self.directory / "ca.pem"
        key = self.directory / "key.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                        "-nodes", "-days", "2", "-subj", f"/CN={address}", "-addext", f"subjectAltName=IP:{address}",
                        "-keyout", str(key), "-out", str(self.ca)], check=True, capture_output=True)
        users = self.directory / "users"  # bcrypt, the only form it takes
        users.write_text(f"{USER}:$2y$05$mqdrg3FUyyYISluLHkpfJuM1J7g9CLwBx6ecYp7DMeN9pwPSM6eeu\n")
        config = self.directory / "config.yml"
        config.write_text(f"""version: 0.1
log: {{level: info, accesslog: {{disabled: false}}}}
storage: {{filesystem: {{rootdirectory: {self.directory / "data"}}}}}
auth: {{htpasswd: {{realm: test, path: {users}}}}}
http:
  addr: {address}:0
""" + (f"  tls: {{certificate: {self.ca}, key: {key}}}\n" if tls else ""))
        self._log = open(self.directory / "log", "wb")
        self._process = subprocess.Popen([PROGRAM, "serve", str(config)], stdin=subprocess.DEVNULL, stdout=self._log,
                                         stderr=subprocess.PIPE,
                                         env={"PATH": "/usr/bin:/bin", "OTEL_TRACES_EXPORTER": "none"})
        said = b""
        while not (found := re.search(rb"listening on ([\d.]+:\d+)[, \"\n]", said)):
            piece = os.read(self._process.stderr.fileno(), 65536)
            assert piece, f"docker-registry did not start: {said.decode()}"
            said += piece
        self.host = found.group(1).decode()
        #  Its standard error is a pipe that has to be emptied.
        self._drain = subprocess.Popen(["cat"], stdin=self._process.stderr, stdout=self._log)
        self._process.stderr.close()
        self.client = httpx.Client(base_url=f"{'https' if tls else 'http'}://{self.host}", auth=(USER, PASSWORD), trust_env=False, timeout=60,
                                   verify=ssl.create_default_context(cafile=str(self.ca)))

    def close(self):
        self.client.close()
        self._process.kill()
        self._process.wait()
        self._drain.wait()
        self._log.close()

    def blob(self, repository, data):
        location = self.client.post(f"/v2/{repository}/blobs/uploads/").headers["Location"]
        response = self.client.put(location + "&digest=" + digest_of(data), content=data)
        assert response.status_code == 201, response.text
        return {"digest": digest_of(data), "size": len(data)}

    def push(self, name, layers, compress=False, change=lambda manifest: None, **config):
        """Puts an image there and returns its reference. `change` may spoil the manifest."""
        repository, tag = name.split(":")
        kind = "application/vnd.oci.image.layer.v1.tar" + ("+gzip" if compress else "")
        manifest = {
            "schemaVersion": 2, "mediaType": MANIFEST,
            "config": {"mediaType": "application/vnd.oci.image.config.v1+json",
                       **self.blob(repository, image_config(layers, **config))},
            "layers": [{"mediaType": kind, **self.blob(repository, gzip.compress(layer, 1) if compress else layer)}
                       for layer in layers]}
        change(manifest)
        response = self.client.put(f"/v2/{repository}/manifests/{tag}", content=json.dumps(manifest),
                                   headers={"Content-Type": MANIFEST})
        assert response.status_code == 201, response.text
        return f"{self.host}/{name}"

    def file_of(self, digest):
        """Where it keeps a blob, for tests that damage it."""
        hexadecimal = digest.removeprefix("sha256:")
        return (self.directory / "data/docker/registry/v2/blobs/sha256" / hexadecimal[:2] / hexadecimal / "data")

    def requests(self):
        """The requests to it: "GET /v2/.."."""
        self._log.flush()
        text = (self.directory / "log").read_text(errors="replace")
        return re.findall(r'"((?:GET|HEAD) /v2/\S*) HTTP', text)
