"""osb doctor on the engine of this machine, and osb up with a registry of this machine."""

import contextlib
import http.server
import json
import threading

import pytest
from docker_engine import Engine, Podman
from osb_program import Osb
from registry import MANIFEST, busybox_layer, digest_of, image_config
from server_process import Server


@pytest.fixture(autouse=True)
def nothing_left():
    """Overrides the suite's: every test has backends of its own."""


class NoServer:
    key, port = "a-key", 1


def engine_findings(tmp_path, url):
    osb = Osb(NoServer(), tmp_path)
    osb.env["DOCKER_HOST"] = url
    # No server answers, so the verdict is bad; the engine is looked at all the same.
    checks = json.loads(osb.run("doctor", "-o", "json").stdout)["checks"]
    return [each for each in checks if each["check"] == "container engine"]


@pytest.fixture(scope="module", params=[Engine, Podman])
def engine(request):
    made = request.param(host_image=False)
    yield made
    made.close()


def test_doctor_names_the_walls_that_an_engine_lacks(tmp_path, engine):
    options = engine.ask("GET", "/info").get("SecurityOptions") or []
    said = engine_findings(tmp_path, engine.url)
    assert said and all(each["state"] in ("ok", "warning") for each in said), said
    text = "\n".join(each["detail"] for each in said)
    assert str(engine.socket) in text
    # An engine as root without userns-remap: the fact and the finding agree.
    assert ("user namespaces" in text) == (not any("userns" in each or "rootless" in each for each in options)), (text, options)
    assert ("AppArmor or SELinux" in text) == (not any("apparmor" in each or "selinux" in each for each in options)), text


@pytest.mark.parametrize("settings, is_open", [({}, False), ({"isolate_network": False}, True),
                                               ({"isolate_network": False, "allow_metadata": True,
                                                 "allow_private_networks": True}, False)])
def test_doctor_says_where_sandboxes_reach_more_than_the_internet(tmp_path, engine, settings, is_open):
    server = Server(engine, settings={"docker": settings})
    try:
        checks = json.loads(Osb(server, tmp_path).run("doctor", "-o", "json").stdout)["checks"]
        said = [each for each in checks if each["check"] == "closed networks"]
        assert ("docs/docker.md has a table" in server.log()) == is_open
        assert [each["state"] for each in said] == (["warning"] if is_open else [])
        assert not said or "isolate_network" in said[0]["detail"] and "docs/docker.md" in said[0]["advice"]
    finally:
        server.close()


def test_doctor_finds_nothing_where_there_is_no_engine(tmp_path):
    assert engine_findings(tmp_path, f"unix://{tmp_path}/none.sock") == []


@contextlib.contextmanager
def plain_registry(name, tag):
    """A registry without TLS that has one image."""
    layer = busybox_layer()
    config = image_config([layer])
    manifest = json.dumps({"schemaVersion": 2, "mediaType": MANIFEST,
                           "config": {"mediaType": "application/vnd.docker.container.image.v1+json", "size": len(config),
                                      "digest": digest_of(config)},
                           "layers": [{"mediaType": "application/vnd.docker.image.rootfs.diff.tar", "size": len(layer),
                                       "digest": digest_of(layer)}]}).encode()
    known = {"/v2/": b"{}", f"/v2/{name}/manifests/{tag}": manifest, f"/v2/{name}/manifests/{digest_of(manifest)}": manifest,
             f"/v2/{name}/blobs/{digest_of(config)}": config, f"/v2/{name}/blobs/{digest_of(layer)}": layer}
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            body = known.get(self.path)
            self.send_response(200 if body is not None else 404)
            self.send_header("Content-Type", MANIFEST if "/manifests/" in self.path else "application/octet-stream")
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_up_allows_a_registry_and_takes_it_back(service):
    with plain_registry("tools/box", "1") as (host, asked):
        image = f"{host}/tools/box:1"
        service.up()
        refused = service.osb.refused("run", image, "--", "echo", "hello")
        assert "on this machine or on a private network" in refused and asked == [], refused
        service.up("--allow-registry", host)
        assert service.osb.run("run", image, "--", "echo", "hello").stdout == b"hello\n"
        assert asked
        # It is kept, also through another start, and ended by `none`.
        service.down()
        service.up()
        service.osb.ok("image", "rm", image)
        assert service.osb.run("run", image, "--", "echo", "again").stdout == b"again\n"
        service.up("--allow-registry", "none")
        service.osb.ok("image", "rm", image)
        asked.clear()
        assert "private network" in service.osb.refused("run", image, "--", "true") and asked == []
