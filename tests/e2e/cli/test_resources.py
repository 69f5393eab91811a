"""osb snapshot, template, metadata and image."""

import http.server
import json
import threading

import pytest
from registry import MANIFEST, busybox_layer, digest_of, docker_archive, image_config


@pytest.fixture
def sandbox(server):
    made = server.create(metadata={"team": "one"})["id"]
    yield made
    server.client.delete(f"/v1/sandboxes/{made}")


def test_snapshots(osb, server, sandbox):
    server.run(sandbox, "echo kept > /root/note")
    made = osb.json("snapshot", "create", sandbox, "--name", "first", "--wait")
    assert (made["sandbox_id"], made["name"], made["status"]) == (sandbox, "first", "Ready")
    assert osb.json("snapshot", "get", made["id"])["id"] == made["id"]
    listed = osb.json("snapshot", "list", "--sandbox", sandbox)
    assert [each["id"] for each in listed["items"]] == [made["id"]]
    assert listed["pagination"]["total_items"] == 1
    assert "first" in osb.ok("snapshot", "list")
    again = osb.json("sandbox", "create", "--snapshot-id", made["id"])["id"]
    assert osb.ok("cat", again, "/root/note") == "kept\n"
    server.delete(again)
    assert osb.json("snapshot", "delete", made["id"]) == {"status": "ok", "message": f"Snapshot deleted: {made['id']}"}
    assert osb.json("snapshot", "list", "--sandbox", sandbox)["items"] == []
    osb.refused("snapshot", "get", made["id"])
    osb.refused("snapshot", "create", "no-such-sandbox")


def test_templates(osb, server, tmp_path):
    made = osb.json("template", "create", "-i", "host", "--entrypoint", "sh", "--entrypoint", "-c", "--entrypoint",
                    "echo kept > /root/note; exec sleep 1000", "-e", "COLOUR=blue", "-m", "team=one",
                    "--readiness-probe", "cmd://test -f /root/note", "--wait")
    id = made["template_id"]
    assert made == {"template_id": id, "image": "host", "status": "Succeeded"}
    shown = osb.json("template", "get", id)
    assert (shown["template_id"], shown["env"], shown["metadata"]) == (id, {"COLOUR": "blue"}, {"team": "one"})
    assert shown["readiness"] == {"probe": "cmd://test -f /root/note", "warmup_seconds": None}
    assert osb.json("template", "get", id[4:12])["template_id"] == id  # the beginning of the id, without tpl-
    assert [each["template_id"] for each in osb.json("template", "list", "-m", "team=one")["items"]] == [id]
    assert osb.json("template", "list", "-m", "team=two")["items"] == []
    assert "Succeeded" in osb.ok("template", "list")
    sandbox = osb.json("sandbox", "create", "--template", id, "--timeout", "10m")
    assert (sandbox["template"], sandbox["timeout"]) == (id, "0:10:00")
    assert osb.ok("cat", sandbox["id"], "/root/note") == "kept\n"
    assert osb.json("template", "delete", id) == {"status": "ok", "message": f"Template deleted: {id}"}
    assert osb.ok("cat", sandbox["id"], "/root/note") == "kept\n"
    server.delete(sandbox["id"])
    osb.refused("template", "get", id)
    wanted = tmp_path / "template.json"
    wanted.write_text(json.dumps({"image": "host", "publish": "local://", "entrypoint": ["sh", "-c", "echo broken; exit 3"],
                                  "readiness": {"probe": "cmd://false"}}))
    failed = osb.refused("template", "create", "-f", str(wanted), "--wait")
    assert "broken" in failed
    broken = osb.json("template", "list")["items"][0]["template_id"]
    assert "broken" in osb.ok("template", "logs", broken)
    osb.ok("template", "delete", broken)
    assert "s3://" in osb.refused("template", "create", "-i", "host", "-p", "s3://bucket/x")


def test_metadata(osb, sandbox):
    assert osb.json("metadata", "get", sandbox) == {"team": "one"}
    assert osb.json("metadata", "set", sandbox, "team=two", "stage=a.b") == {"team": "two", "stage": "a.b"}
    assert osb.ok("metadata", "get", sandbox, "stage") == "a.b\n"
    assert osb.json("metadata", "unset", sandbox, "team", "absent") == {"stage": "a.b"}
    assert "absent" in osb.refused("metadata", "get", sandbox, "absent")
    osb.refused("metadata", "set", sandbox, "novalue", code=2)
    osb.refused("metadata", "get", "no-such-sandbox")


def test_images_are_loaded_listed_and_removed(osb, tmp_path):
    file = tmp_path / "saved.tar"
    file.write_bytes(docker_archive("from-file:1", [busybox_layer()]))
    loaded, = osb.json("image", "load", file)
    assert osb.run("run", loaded["uri"], "--", "cat", "/etc/passwd").stdout.startswith(b"root:x:0:0")
    other = docker_archive("from-stdin:1", [busybox_layer(marker="here")])
    from_stdin, = osb.json("image", "load", "-", input=other)
    listed = {image["uri"] for image in osb.json("image", "ls")}
    assert {loaded["uri"], from_stdin["uri"]} <= listed
    assert "from-file" in osb.ok("image", "ls")
    osb.ok("image", "rm", loaded["uri"], from_stdin["uri"])
    assert not {loaded["uri"], from_stdin["uri"]} & {image["uri"] for image in osb.json("image", "ls")}
    root, = osb.json("image", "load", "-", "--name", "from-root:1", input=busybox_layer())
    assert osb.run("run", root["uri"], "--", "cat", "/etc/passwd").stdout.startswith(b"root:x:0:0")
    osb.ok("image", "rm", root["uri"])
    assert "osb image ls" in osb.refused("image", "rm", "no-such-image:1")
    assert "No such file" in osb.refused("image", "load", tmp_path / "missing")
    (tmp_path / "nonsense").write_text("this is no archive" * 100)
    osb.refused("image", "load", tmp_path / "nonsense")


class PlainRegistry:
    """Enough of a registry for one image; on loopback sandboxd needs no TLS. It holds half of the layer back until `go`."""

    def __init__(self):
        layer = busybox_layer(filler="x" * (16 << 20))
        config = image_config([layer])
        manifest = json.dumps({
            "schemaVersion": 2, "mediaType": MANIFEST,
            "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": digest_of(config),
                       "size": len(config)},
            "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": digest_of(layer),
                        "size": len(layer)}]}).encode()
        self.go = go = threading.Event()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                body = {"/v2/": b"{}", f"/v2/made/blobs/{digest_of(config)}": config,
                        f"/v2/made/blobs/{digest_of(layer)}": layer}.get(self.path)
                if self.path.startswith("/v2/made/manifests/"):
                    body = manifest
                self.send_response(200 if body is not None else 404)
                self.send_header("Content-Type", MANIFEST if body is manifest else "application/octet-stream")
                self.send_header("Docker-Content-Digest", digest_of(body or b""))
                self.send_header("Content-Length", str(len(body or b"")))
                self.end_headers()
                if self.command != "HEAD" and body:
                    self.wfile.write(body[:len(body) // 2])
                    if body is layer:
                        go.wait(60)
                    self.wfile.write(body[len(body) // 2:])

            do_HEAD = do_GET

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.image = f"127.0.0.1:{self.server.server_address[1]}/made:1"

    def close(self):
        self.go.set()
        self.server.shutdown()
        self.server.server_close()


def test_a_pull_shows_how_far_it_is(osb):
    registry = PlainRegistry()
    try:
        with osb.terminal("image", "pull", registry.image) as terminal:
            terminal.expect(r"made:1: download")  # held back until this is seen
            registry.go.set()
            assert terminal.wait() == 0
            assert "Pulled" in terminal.text()
        assert osb.json("image", "pull", registry.image)["uri"] == registry.image
        assert osb.run("run", registry.image, "--", "echo", "hello").stdout == b"hello\n"
        osb.ok("image", "rm", registry.image)
        assert registry.image.split("/")[0] in osb.refused("image", "pull", registry.image.replace("made", "absent"))
    finally:
        registry.close()
