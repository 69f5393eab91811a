"""An engine behind TCP that shows a certificate and asks for one: it works as over a Unix socket, and a missing or
invalid certificate ends the server's start with an error that says so."""

import shutil
import subprocess

import pytest

from conftest import SmallServer
from docker_engine import Engine
from server_process import free_port


def openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


def make_authority(directory, name):
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
            f"/CN={name}", "-keyout", directory / f"{name}-key.pem", "-out", directory / f"{name}.pem")


def make_certificate(directory, authority, folder, extensions):
    """ca.pem, cert.pem and key.pem, as the Docker client wants them in DOCKER_CERT_PATH."""
    place = directory / folder
    place.mkdir()
    (place / "extensions").write_text(extensions)
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={folder}",
            "-keyout", place / "key.pem", "-out", place / "request")
    openssl("x509", "-req", "-days", "2", "-in", place / "request", "-CA", directory / f"{authority}.pem", "-CAkey",
            directory / f"{authority}-key.pem", "-CAcreateserial", "-extfile", place / "extensions", "-out",
            place / "cert.pem")
    shutil.copy(directory / "ours.pem", place / "ca.pem")
    return place


class Remote:
    """The engine as a server sees it that knows only this address and these certificates."""

    def __init__(self, engine, host, certificates):
        self.engine, self.host, self.certificates = engine, host, certificates

    def __getattr__(self, name):
        return getattr(self.engine, name)

    def server_environment(self, home):
        with_tls = {"DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": str(self.certificates)} if self.certificates else {}
        return {"HOME": str(home), "DOCKER_HOST": self.host, **with_tls}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    place = tmp_path_factory.mktemp("certificates")
    for name in ("ours", "theirs"):
        make_authority(place, name)
    make_certificate(place, "ours", "engine", "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth\n")
    make_certificate(place, "ours", "client", "extendedKeyUsage=clientAuth\n")
    make_certificate(place, "theirs", "stranger", "extendedKeyUsage=clientAuth\n")
    return place


@pytest.fixture(scope="module")
def remote(certificates):
    port = free_port()
    own = certificates / "engine"
    running = Engine(1, host_image=False, arguments=[
        "-H", f"tcp://127.0.0.1:{port}", "--tlsverify", "--tlscacert", own / "ca.pem", "--tlscert", own / "cert.pem",
        "--tlskey", own / "key.pem"])
    running.load_busybox()
    running.tcp_port = port
    yield running
    running.close()


@pytest.fixture
def connect(remote):
    made = []

    def make(certificates, host=None):
        made.append(SmallServer(Remote(remote, host or f"tcp://127.0.0.1:{remote.tcp_port}", certificates)))
        return made[-1]

    yield make
    for each in made:
        each.close()
    assert remote.inventory()["containers"] == []


def test_sandboxes_of_an_engine_behind_tls(connect, certificates):
    server = connect(certificates / "client")
    id = server.create()["id"]
    assert server.run(id, "echo far away") == "far away"
    for action, state in (("pause", "Paused"), ("resume", "Running")):
        assert server.client.post(f"/v1/sandboxes/{id}/{action}").status_code == 202
        server.wait_state(id, state)
    server.kill()
    server.start()
    assert server.run(id, "echo still there") == "still there"
    server.delete(id)


def test_a_foreign_certificate_is_not_trusted(connect, certificates, tmp_path):
    for name in ("cert.pem", "key.pem"):
        shutil.copy(certificates / "client" / name, tmp_path / name)
    shutil.copy(certificates / "theirs.pem", tmp_path / "ca.pem")
    with pytest.raises(RuntimeError, match=r"127\.0\.0\.1.*certificate.*(verify|trust|issuer)"):
        connect(tmp_path)


def test_the_engine_does_not_believe_a_strangers_certificate(connect, certificates):
    with pytest.raises(RuntimeError, match=r"127\.0\.0\.1.*certificate"):
        connect(certificates / "stranger")


@pytest.mark.parametrize("missing", ["ca.pem", "cert.pem", "key.pem"])
def test_a_missing_file_of_our_own_certificate_is_named(connect, certificates, tmp_path, missing):
    for name in {"ca.pem", "cert.pem", "key.pem"} - {missing}:
        shutil.copy(certificates / "client" / name, tmp_path / name)
    with pytest.raises(RuntimeError, match=f"DOCKER_CERT_PATH.*{missing}"):
        connect(tmp_path)


def test_an_engine_with_tls_is_asked_without(connect):
    with pytest.raises(RuntimeError, match="HTTPS"):
        connect(None)


def test_an_engine_under_a_name_that_is_not_in_its_certificate(connect, remote, certificates):
    with pytest.raises(RuntimeError, match="localhost"):
        connect(certificates / "client", f"tcp://localhost:{remote.tcp_port}")
