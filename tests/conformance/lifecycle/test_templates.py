"""Templates: an image that is started and warmed up once, and creates that start from the result."""

import base64
import concurrent.futures
import contextlib
import io
import json
import subprocess
import tarfile

import pytest

from backend import backend
from registry import MANIFEST, PASSWORD, USER, Registry, busybox_layer, digest_of, docker_archive

UNKNOWN = "tpl-6b0a2c7e-0000-4000-8000-000000000000"
WARM = ["sh", "-c", "echo warmed up > /root/warm; echo ready; exec sleep 100000"]


def post(server, **fields):
    body = {"image": "host", "publish": "local://", **fields}
    return server.client.post("/v1/templates", json={name: value for name, value in body.items() if value is not ...})


def make(server, **fields):
    made = post(server, **fields)
    assert made.status_code == 201, made.text
    assert made.json()["status"] == {"phase": "Pending"}
    assert made.headers["location"] == f"/v1/templates/{made.json()['templateId']}"
    return made.json()["templateId"]


def get(server, id, wait=0):
    """Waits until it is built or has failed; one answer is held back for five minutes at most."""
    answer = server.client.get(f"/v1/templates/{id}", params={"wait": wait} if wait else {}, timeout=400)
    assert answer.status_code == 200, answer.text
    return answer.json()


def built(server, id):
    settled = get(server, id, wait=300)
    assert settled["status"]["phase"] == "Succeeded", f"{settled}\n{server.log()[-3000:]}\n{server.daemon.log()[-2000:]}"
    return settled


def failed(server, id):
    settled = get(server, id, wait=300)
    assert settled["status"]["phase"] == "Failed", settled
    return settled["status"]["message"]


def create_from(server, template, **fields):
    response = server.client.post("/v1/sandboxes", params={"wait": 120},
                                  json={"templateId": template, "timeout": 600, **fields})
    assert response.status_code == 202, f"{response.text}\n{server.log()[-2000:]}"
    assert response.json()["status"]["state"] == "Running", response.text
    return response.json()["id"]


def delete(server, template):
    assert server.client.delete(f"/v1/templates/{template}").status_code == 204
    assert server.client.get(f"/v1/templates/{template}").status_code == 404


def sandboxes(server):
    return server.client.get("/v1/sandboxes", params={"pageSize": 200}).json()["items"]


def until_clean(server):
    """The sandboxes of builds are removed after the template is Succeeded or Failed."""
    for each in sandboxes(server):
        server.wait_state(each["id"], "deleted")


@pytest.fixture(autouse=True)
def no_templates_left(request):
    yield
    if "server" in request.fixturenames:
        server = request.getfixturevalue("server")
        for item in server.client.get("/v1/templates", params={"pageSize": 200}).json()["items"]:
            assert server.client.delete(f"/v1/templates/{item['templateId']}").status_code in (204, 404)


@pytest.mark.on_podman
def test_a_template_is_built_once_and_started_from(server):
    id = make(server, entrypoint=WARM, env={"COLOUR": "blue"}, metadata={"team": "a"},
              readiness={"probe": "cmd://test -f /root/warm"})
    assert id.startswith("tpl-")
    settled = built(server, id)
    assert settled["status"]["manifestRef"] and "message" not in settled["status"]
    assert settled["image"] == "host" and settled["env"] == {"COLOUR": "blue"} and settled["metadata"] == {"team": "a"}
    assert settled["resourceLimits"].items() >= {"cpu": "1", "memory": "512Mi"}.items()
    first, second = create_from(server, id), create_from(server, id, metadata={"name": "two"})
    for sandbox in (first, second):
        #  Files are kept, processes start anew, with the template's environment and entrypoint.
        assert server.run(sandbox, "cat /root/warm; echo $COLOUR") == "warmed up\nblue"
        shown = server.get(sandbox).json()
        assert shown["templateId"] == id and "snapshotId" not in shown and shown["entrypoint"] == WARM
    server.run(first, "echo changed > /root/warm")
    assert server.run(second, "cat /root/warm") == "warmed up"
    assert server.client.get("/v1/snapshots").json()["items"] == []


def test_the_sandbox_of_a_build_is_shown_and_goes(server):
    id = make(server, readiness={"probe": "cmd://test -f /go"})
    while not (building := [s for s in sandboxes(server) if s.get("metadata") == {"template": id}]):
        assert get(server, id)["status"]["phase"] in ("Pending", "Building")
    sandbox = building[0]["id"]
    server.wait_state(sandbox, "Running")
    while "readiness probe" not in get(server, id)["status"].get("message", ""):
        assert get(server, id)["status"]["phase"] == "Building"
    server.run(sandbox, "touch /go")
    built(server, id)
    server.wait_state(sandbox, "deleted")


def test_a_port_is_waited_for(server):
    waits = "until test -f /go; do sleep 0.1; done; exec "
    listens = "python3 -c 'import socket, time; kept = socket.create_server((str(), 7001)); time.sleep(1e6)'"
    id = make(server, entrypoint=["sh", "-c", waits + listens], readiness={"probe": "tcp://127.0.0.1:7001"})
    while not (building := [s for s in sandboxes(server) if s.get("metadata") == {"template": id}]):
        pass
    sandbox = building[0]["id"]
    server.wait_state(sandbox, "Running")
    while "port 7001" not in get(server, id)["status"].get("message", ""):
        assert get(server, id)["status"]["phase"] == "Building"
    server.run(sandbox, "touch /go")
    built(server, id)


@pytest.mark.on_docker
def test_a_failed_build_says_why_and_leaves_nothing(server):
    # It ends after a probe, whose line of execd's log stands behind its own.
    broken = "echo it is broken; until test -e /tmp/probed; do sleep 0.1; done; exit 3"
    for fields, why in [
        ({"entrypoint": ["sh", "-c", broken], "readiness": {"probe": "cmd://touch /tmp/probed; false"}}, "it is broken"),
        ({"image": "127.0.0.1:1/no/such:image"}, ""),
    ]:
        id = make(server, **fields)
        message = failed(server, id)
        assert message and why in message
        if why:
            assert why in server.client.get(f"/v1/templates/{id}/logs").text
        refused = server.client.post("/v1/sandboxes", json={"templateId": id, "timeout": 60})
        assert (refused.status_code, refused.json()["code"]) == (404, "FSB::TEMPLATE_NOT_FOUND")
        assert "Failed" in refused.json()["message"]
    until_clean(server)


def test_a_build_whose_sandbox_is_deleted_fails(server):
    id = make(server, readiness={"probe": "cmd://false"})
    while not (building := [s for s in sandboxes(server) if s.get("metadata") == {"template": id}]):
        pass
    server.wait_state(building[0]["id"], "Running")
    server.delete(building[0]["id"])
    assert "removed" in failed(server, id)


def test_a_deleted_template_leaves_its_sandboxes_alone(server):
    id = make(server, entrypoint=WARM, readiness={"probe": "cmd://test -f /root/warm"})
    built(server, id)
    sandbox = create_from(server, id)
    delete(server, id)
    assert id not in [item["templateId"] for item in server.client.get("/v1/templates").json()["items"]]
    assert server.run(sandbox, "cat /root/warm") == "warmed up"
    refused = server.client.post("/v1/sandboxes", json={"templateId": id, "timeout": 60})
    assert (refused.status_code, refused.json()["code"]) == (404, "FSB::TEMPLATE_NOT_FOUND")
    #  The snapshot goes with the last sandbox that stands on it.
    with server.saying("template removed"):
        server.delete(sandbox)


@pytest.mark.on_docker
def test_a_template_that_is_being_built_can_be_deleted(server):
    id = make(server, readiness={"probe": "cmd://false"})
    while not (building := [s for s in sandboxes(server) if s.get("metadata") == {"template": id}]):
        pass
    with server.saying("template removed"):
        delete(server, id)
    assert server.get(building[0]["id"]).status_code == 404
    assert server.client.delete(f"/v1/templates/{id}").json()["code"] == "FSB::TEMPLATE_NOT_FOUND"


def test_lists_have_pages_and_filters(server):
    ids = [make(server, metadata={"team": "a" if i < 2 else "b", "n": str(i)}) for i in range(3)]
    for id in ids:
        built(server, id)
    listed = server.client.get("/v1/templates").json()
    assert [item["templateId"] for item in listed["items"]] == ids[::-1]
    assert listed["pagination"] == {"page": 1, "pageSize": 20, "totalItems": 3, "totalPages": 1, "hasNextPage": False}
    page = server.client.get("/v1/templates", params={"page": 2, "pageSize": 2}).json()
    assert [item["templateId"] for item in page["items"]] == [ids[0]]
    filtered = server.client.get("/v1/templates", params={"metadata": "team=a&n=1"}).json()
    assert [item["templateId"] for item in filtered["items"]] == [ids[1]]
    assert server.client.get("/templates").json()["pagination"]["totalItems"] == 3
    for query in ({"page": 0}, {"pageSize": 201}, {"pageSize": "x"}):
        assert server.client.get("/v1/templates", params=query).status_code == 422
    assert server.client.get("/v1/templates", params={"metadata": "x"}).json()["code"] == "INVALID_METADATA_FORMAT"


@pytest.mark.parametrize("fields, status, what", [
    ({"image": ...}, 422, "image"),
    ({"image": "  "}, 422, "image"),
    ({"publish": ...}, 422, "publish"),
    ({"colour": "blue"}, 422, "colour"),
    ({"readiness": {"port": 1}}, 422, "readiness/port"),
    ({"readiness": {"warmupSeconds": -1}}, 422, "warmupSeconds"),
    ({"format": "qcow"}, 422, "format"),
    ({"format": "overlaybd"}, 400, "format"),
    ({"publish": "s3://bucket/x"}, 400, "s3://bucket/x"),
    ({"publish": "file:///etc/x.tar"}, 400, "publish_directories"),
    ({"publish": "file://relative.tar"}, 400, "absolute"),
    ({"publish": "oci://registry.example.com/x:1"}, 400, "publish_registries"),
    ({"resourceLimits": {"gpu": "1"}}, 400, "gpu"),
    ({"resourceLimits": {"memory": "much"}}, 400, "memory"),
    ({"env": {"1X": "a"}}, 400, "1X"),
    ({"env": {"OPENSANDBOX_LIFECYCLE": "{}"}}, 422, "OPENSANDBOX_LIFECYCLE"),
    ({"env": {"OPENSANDBOX_EGRESS_TOKEN": "a"}}, 400, "OPENSANDBOX_EGRESS_TOKEN"),
    ({"metadata": {"opensandbox.io/x": "a"}}, 400, "opensandbox.io/x"),
    ({"metadata": {"x": "a b"}}, 400, "x"),
    ({"readiness": {"probe": "http://127.0.0.1:80"}}, 400, "probe"),
    ({"readiness": {"probe": "tcp://10.0.0.1:80"}}, 400, "not the sandbox itself"),
    ({"readiness": {"probe": "tcp://127.0.0.1:0"}}, 400, "port"),
    ({"readiness": {"probe": "cmd://"}}, 400, "cmd://"),
])
def test_bad_requests_are_refused_with_the_field(server, fields, status, what):
    refused = post(server, **fields)
    assert refused.status_code == status, refused.text
    assert what in refused.json()["message"] and refused.json()["code"]
    assert server.client.get("/v1/templates").json()["items"] == []


def test_unknown_templates(server):
    for method, path in [("GET", ""), ("DELETE", ""), ("GET", "/logs")]:
        answer = server.client.request(method, f"/v1/templates/{UNKNOWN}{path}")
        assert (answer.status_code, answer.json()["code"]) == (404, "FSB::TEMPLATE_NOT_FOUND")
    answer = server.client.post("/v1/sandboxes", json={"templateId": UNKNOWN, "timeout": 60})
    assert (answer.status_code, answer.json()["code"]) == (404, "FSB::TEMPLATE_NOT_FOUND")


def test_a_template_brings_the_workload_along(server):
    body = {"templateId": UNKNOWN, "timeout": 60, "image": {"uri": "host"}, "env": {}, "secureAccess": True,
            "entrypoint": ["true"], "resourceLimits": {}}
    refused = server.client.post("/v1/sandboxes", json=body)
    assert refused.status_code == 422
    assert "entrypoint, env, image, resourceLimits, secureAccess" in refused.json()["message"]
    refused = server.client.post("/v1/sandboxes", json={"templateId": UNKNOWN})
    assert refused.status_code == 422 and "timeout" in refused.json()["message"]


def test_capabilities_name_templates(server):
    features = {each["name"]: each for each in server.client.get("/v1/capabilities").json()["features"]}
    assert features["templates"] == {"name": "templates", "available": True}


@pytest.mark.on_podman
def test_a_template_is_published_into_a_listed_directory(make_server, tmp_path):
    server = make_server(settings={"templates": {"publish_directories": [str(tmp_path)]}})
    image = "host"
    if backend() == "native":  # its image `host` has no layers to export
        loaded = server.client.post("/v1/images/load", content=docker_archive("mine:1", [busybox_layer()]))
        assert loaded.status_code == 201, loaded.text
        image = "mine:1"
    target = tmp_path / "warm.tar"
    id = make(server, image=image, publish=f"file://{target}", entrypoint=WARM,
              readiness={"probe": "cmd://test -f /root/warm"})
    assert built(server, id)["status"]["manifestRef"] == f"file://{target}"
    with tarfile.open(target) as archive:
        assert "manifest.json" in archive.getnames()
    assert [each.name for each in tmp_path.iterdir()] == ["warm.tar"]
    if backend() == "native":
        loaded = server.client.post("/v1/images/load", params={"name": "again:1"}, content=target.read_bytes())
        assert loaded.status_code == 201, loaded.text
        sandbox = server.create(image={"uri": "again:1"}, entrypoint=["sleep", "1000"])["id"]
        assert server.run(sandbox, "cat /root/warm") == "warmed up"
    #  A link does not lead out of the list, and a directory that is missing fails the build with its name.
    (tmp_path / "out").symlink_to("/tmp")
    for place, why in ((tmp_path / "out" / "x.tar", "leads out of"), (tmp_path / "none" / "x.tar", "none")):
        # Busybox has no tail, which is the default entrypoint: the sandbox would end beside its build.
        id = make(server, image=image, publish=f"file://{place}", entrypoint=["sleep", "1000"])
        assert why in failed(server, id)
    refused = post(server, publish=f"file://{tmp_path}/../x.tar")
    assert refused.status_code == 400
    if backend() == "native":
        server.delete(sandbox)
    until_clean(server)


@pytest.mark.on_podman
def test_a_template_is_published_into_a_listed_registry(make_server, tmp_path):
    (tmp_path / "registry").mkdir()
    (tmp_path / "auth.json").touch(mode=0o600)
    with contextlib.closing(Registry(tmp_path / "registry", tls=False)) as registry:
        credentials = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        (tmp_path / "auth.json").write_text(json.dumps({"auths": {registry.host: {"auth": credentials}}}))
        server = make_server(settings={"templates": {"publish_registries": [f"{registry.host}/team"],
                                                     "registry_auth_file": str(tmp_path / "auth.json")}})
        image = "host"
        if backend() == "native":  # its image `host` has no layers to export
            loaded = server.client.post("/v1/images/load", content=docker_archive("mine:2", [busybox_layer()]))
            assert loaded.status_code == 201, loaded.text
            image = "mine:2"
        name = f"{registry.host}/team/warm:1"
        id = make(server, image=image, publish=f"oci://{name}", entrypoint=WARM,
                  readiness={"probe": "cmd://test -f /root/warm"})
        reference = built(server, id)["status"]["manifestRef"]
        manifest = registry.client.get("/v2/team/warm/manifests/1", headers={"Accept": MANIFEST})
        assert reference == f"oci://{name}@{digest_of(manifest.content)}"
        top = manifest.json()["layers"][-1]
        layer = registry.client.get(f"/v2/team/warm/blobs/{top['digest']}").content
        assert digest_of(layer) == top["digest"]
        with tarfile.open(fileobj=io.BytesIO(layer)) as files:
            assert "root/warm" in [each.removeprefix("./") for each in files.getnames()]
        assert not list(server.directory.rglob("publishing/*")), "the archive is not kept"
        # Another place of the same registry is not listed, and a wrong password is told, not shown.
        assert post(server, image=image, publish=f"oci://{registry.host}/other:1").status_code == 400
        (tmp_path / "auth.json").write_text(json.dumps({"auths": {registry.host: {"username": USER, "password": "guess"}}}))
        message = failed(server, make(server, image=image, publish=f"oci://{name}", entrypoint=WARM))
        assert "credentials" in message and "guess" not in message, message
        until_clean(server)


@pytest.mark.parametrize("probe, said", [("cmd://echo not yet; exit 1", "not yet"), ("cmd://sleep 1000000", ""),
                                         ("tcp://127.0.0.1:9", "port 9")], ids=["fails", "hangs", "refuses"])
def test_a_build_that_takes_too_long_fails(make_server, probe, said):
    server = make_server(settings={"templates": {"build_timeout_seconds": 5}})
    message = failed(server, make(server, readiness={"probe": probe}))
    assert "build_timeout_seconds" in message and said in message
    until_clean(server)


@pytest.mark.on_docker
def test_builds_survive_the_death_of_the_server(make_server):
    """Killed again and again, at any step: every template is built in the end, and nothing is left beside it."""
    server = make_server()
    ids = [make(server, entrypoint=WARM, readiness={"probe": "cmd://test -f /root/warm"}) for _ in range(3)]
    for line in ("building a template", "sandbox created", "template built", "sandbox removed"):
        if all(get(server, id)["status"]["phase"] == "Succeeded" for id in ids):
            ids.append(make(server, entrypoint=WARM, readiness={"probe": "cmd://test -f /root/warm"}))
        tail = subprocess.Popen(["tail", "-f", "-n", "+1", str(server.directory / "server.log")],
                                stdout=subprocess.PIPE, text=True)
        try:
            next(each for each in tail.stdout if line in each)
        finally:
            tail.kill()
            tail.wait()
            tail.stdout.close()
        server.kill()
        server.start()
    for id in ids:
        built(server, id)
        sandbox = create_from(server, id)
        assert server.run(sandbox, "cat /root/warm") == "warmed up"
        server.delete(sandbox)
    until_clean(server)
    for id in ids:
        with server.saying("template removed"):
            delete(server, id)
    assert server.daemon.list() == []


@pytest.mark.on_docker
def test_a_half_deleted_template_goes_after_a_restart(make_server):
    server = make_server()
    id = make(server, entrypoint=WARM, readiness={"probe": "cmd://test -f /root/warm"})
    built(server, id)
    sandbox = create_from(server, id)
    delete(server, id)
    server.kill()
    server.start()
    assert server.run(sandbox, "cat /root/warm") == "warmed up"
    with server.saying("template removed"):
        server.delete(sandbox)


def test_many_builds_at_once(server):
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        ids = list(pool.map(lambda _: make(server), range(6)))
    for id in ids:
        built(server, id)
