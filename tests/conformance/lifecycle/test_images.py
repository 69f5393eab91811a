"""/images: what sandboxes can start from."""

import json

from registry import busybox_layer, docker_archive


def uris(server):
    response = server.client.get("/v1/images")
    assert response.status_code == 200, response.text
    return [item["uri"] for item in response.json()["items"]]


def test_an_archive_becomes_an_image_to_start_from(server):
    assert uris(server) == ["host"]
    loaded = server.client.post("/v1/images/load", content=docker_archive("mine:1", [busybox_layer()]))
    assert loaded.status_code == 201, loaded.text
    assert [item["uri"] for item in loaded.json()["items"]] == ["mine:1"]
    assert uris(server) == ["host", "mine:1"]
    id = server.create(image={"uri": "mine:1"}, entrypoint=["sleep", "1000"])["id"]
    assert server.run(id, "ls /usr 2>/dev/null; echo from busybox").endswith("from busybox")
    used = server.client.delete("/v1/images", params={"uri": "mine:1"})
    assert (used.status_code, used.json()["code"]) == (409, "NATIVE::IMAGE_IN_USE")
    server.delete(id)
    assert server.client.delete("/v1/images", params={"uri": "mine:1"}).status_code == 204
    gone = server.client.delete("/v1/images", params={"uri": "mine:1"})
    assert (gone.status_code, gone.json()["code"]) == (404, "NATIVE::IMAGE_NOT_FOUND")
    assert uris(server) == ["host"]


def test_what_is_no_archive_is_refused(server):
    refused = server.client.post("/v1/images/load", content=b"no archive")
    assert refused.status_code == 400 and refused.json()["code"]
    assert server.client.delete("/v1/images").status_code == 422


def test_a_pull_that_fails_says_so_in_its_stream(server):
    response = server.client.post("/v1/images/pull", json={"uri": "127.0.0.1:1/none:1"})
    assert response.status_code == 200
    last = json.loads([line for line in response.text.split("\n\n") if line][-1])
    assert last["type"] == "error" and last["error"]["code"] == "NATIVE::SANDBOX_IMAGE_PULL_FAILED"
