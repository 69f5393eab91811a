"""/images: what sandboxes can start from, where the backend keeps images itself."""

import gzip
import json
import socket

import pytest

from backend import backend
from registry import busybox_layer, docker_archive

own_images = pytest.mark.skipif(backend() != "native", reason="engines keep their images: refused, see the last test")


def uris(server):
    response = server.client.get("/v1/images")
    assert response.status_code == 200, response.text
    return [item["uri"] for item in response.json()["items"]]


@own_images
def test_an_archive_becomes_an_image_to_start_from(server):
    assert uris(server) == ["host"]
    loaded = server.client.post("/v1/images/load", content=docker_archive("mine:1", [busybox_layer()]))
    assert loaded.status_code == 201, loaded.text
    assert [item["uri"] for item in loaded.json()["items"]] == ["mine:1"]
    assert uris(server) == ["host", "mine:1"]
    id = server.create(image={"uri": "mine:1"}, entrypoint=["sleep", "1000"])["id"]
    assert server.run(id, "ls /usr 2>/dev/null; echo from busybox").endswith("from busybox")
    used = server.client.delete("/v1/images", params={"uri": "mine:1"})
    assert (used.status_code, used.json()["code"]) == (409, server.code("IMAGE_IN_USE"))
    server.delete(id)
    assert server.client.delete("/v1/images", params={"uri": "mine:1"}).status_code == 204
    gone = server.client.delete("/v1/images", params={"uri": "mine:1"})
    assert (gone.status_code, gone.json()["code"]) == (404, server.code("IMAGE_NOT_FOUND"))
    assert uris(server) == ["host"]


@own_images
def test_the_tar_of_a_root_directory_becomes_an_image_under_its_name(server):
    root = busybox_layer(marker="as a root")
    refused = server.client.post("/v1/images/load", content=root)
    assert refused.status_code == 400 and "needs a name" in refused.json()["message"]
    for content in (root, gzip.compress(root)):
        loaded = server.client.post("/v1/images/load", params={"name": "root:1"}, content=content)
        assert loaded.status_code == 201, loaded.text
        assert [item["uri"] for item in loaded.json()["items"]] == ["root:1"]
    id = server.create(image={"uri": "root:1"}, entrypoint=["sleep", "1000"])["id"]
    assert server.run(id, "cat /marker").endswith("as a root")
    server.delete(id)
    assert server.client.delete("/v1/images", params={"uri": "root:1"}).status_code == 204


@own_images
def test_a_snapshot_becomes_an_image(server):
    loaded = server.client.post("/v1/images/load", content=docker_archive("mine:1", [busybox_layer()]))
    assert loaded.status_code == 201, loaded.text
    id = server.create(image={"uri": "mine:1"}, entrypoint=["sleep", "1000"])["id"]
    server.run(id, "echo kept > /root/file")
    snapshot = server.client.post(f"/v1/sandboxes/{id}/snapshots").json()["id"]
    assert server.client.get(f"/v1/snapshots/{snapshot}", params={"wait": 60}).json()["status"]["state"] == "Ready"
    server.delete(id)
    archive = server.client.get(f"/v1/snapshots/{snapshot}/export")
    assert archive.status_code == 200 and archive.headers["content-type"] == "application/x-tar"
    loaded = server.client.post("/v1/images/load", params={"name": "saved:1"}, content=archive.content)
    assert loaded.status_code == 201, loaded.text
    id = server.create(image={"uri": "saved:1"}, entrypoint=["sleep", "1000"])["id"]
    assert server.run(id, "cat /root/file") == "kept"
    server.delete(id)
    assert server.client.delete(f"/v1/snapshots/{snapshot}").status_code == 204
    for uri in ("saved:1", "mine:1"):
        assert server.client.delete("/v1/images", params={"uri": uri}).status_code == 204


@pytest.mark.on_docker
def test_exports_that_are_refused(server):
    unknown = server.client.get("/v1/snapshots/6b0a2c7e-0000-4000-8000-000000000000/export")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "SNAPSHOT::NOT_FOUND")
    id = server.create()["id"]
    snapshot = server.client.post(f"/v1/sandboxes/{id}/snapshots").json()["id"]
    server.client.get(f"/v1/snapshots/{snapshot}", params={"wait": 60})
    answer = server.client.get(f"/v1/snapshots/{snapshot}/export")
    # The image `host` of the native backend has no layers to export; an engine exports every image.
    if backend() == "native":
        assert (answer.status_code, answer.json()["code"]) == (501, "SNAPSHOT::NOT_IMPLEMENTED")
    else:
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-tar")
    server.delete(id)
    assert server.client.delete(f"/v1/snapshots/{snapshot}").status_code == 204


@own_images
def test_a_body_that_is_no_archive_is_refused(server):
    refused = server.client.post("/v1/images/load", content=b"no archive")
    assert refused.status_code == 400 and refused.json()["code"]
    assert server.client.delete("/v1/images").status_code == 422


@own_images
def test_a_pull_is_answered_before_the_registry_says_anything(server):
    """So that a client's patience is not the registry's."""
    with socket.create_server(("127.0.0.1", 0)) as registry:
        registry.settimeout(60)
        uri = f"127.0.0.1:{registry.getsockname()[1]}/silent:1"
        with server.client.stream("POST", "/v1/images/pull", json={"uri": uri}, timeout=60) as response:
            assert response.status_code == 200
            connection, _ = registry.accept()
            connection.close()
            registry.close()
            assert json.loads(response.read().split(b"\n\n")[-2])["type"] == "error"


@own_images
def test_a_pull_that_fails_says_so_in_its_stream(server):
    response = server.client.post("/v1/images/pull", json={"uri": "127.0.0.1:1/none:1"})
    assert response.status_code == 200
    last = json.loads([line for line in response.text.split("\n\n") if line][-1])
    assert last["type"] == "error" and last["error"]["code"] == server.code("SANDBOX_IMAGE_PULL_FAILED")


@pytest.mark.on_docker
@pytest.mark.skipif(backend() == "native", reason="sandboxd keeps images: see above")
@pytest.mark.parametrize("method, path", [("GET", "/v1/images"), ("POST", "/images/pull"), ("POST", "/v1/images/load"),
                                          ("DELETE", "/v1/images?uri=host")])
def test_images_of_an_engine_are_the_engines(server, method, path):
    refused = server.client.request(method, path)
    assert (refused.status_code, refused.json()["code"]) == (501, server.code("IMAGES_NOT_SUPPORTED"))
