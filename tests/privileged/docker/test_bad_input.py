"""Requests that cannot or must not be fulfilled: the contract's code, the thing named, everything undone."""

import base64
import json
import subprocess
import sys

import pytest

from registry import PASSWORD, USER, busybox_layer, tar


@pytest.fixture(scope="module")
def private(registry):
    """An image that needs a user and a password."""
    return registry.push("private/busybox:1", [busybox_layer(), tar({"from": "registry"})])


@pytest.fixture
def forget(engine, server):
    """Removes an image after the test."""
    names = []
    yield names.append
    server.remove_all()
    for name in names:
        engine.ask("DELETE", f"/images/{name}", params={"force": "1"}, status=(200, 404))


def failed(server, **fields):
    """Why a sandbox could not be made; neither a record nor a container is left."""
    answer = server.post_sandbox(**fields)
    assert answer.status_code in (400, 500, 503), answer.text
    assert server.client.get("/v1/sandboxes").json()["items"] == [] and server.daemon.list() == []
    return {"reason": answer.json()["code"], "message": answer.json()["message"]}


def refused(server, **fields):
    response = server.post_sandbox(**fields)
    assert response.status_code >= 400, response.text
    assert server.client.get("/v1/sandboxes").json()["items"] == []
    return response.status_code, response.json()["code"], response.json()["message"]


def test_unknown_images(server, registry):
    for uri in ("127.0.0.1:1/no/such:image", f"{registry.host}/no/such:image"):
        status = failed(server, image={"uri": uri, "auth": {"username": USER, "password": PASSWORD}})
        assert status["reason"] == "DOCKER::SANDBOX_IMAGE_PULL_FAILED" and uri in status["message"], status


def test_wrong_passwords_are_not_told_to_anybody(server, private):
    for auth in (None, {"username": USER, "password": "guess-work"}, {"username": "nobody", "password": PASSWORD}):
        status = failed(server, image={"uri": private, **({"auth": auth} if auth else {})})
        assert status["reason"] == "DOCKER::SANDBOX_IMAGE_PULL_FAILED" and private in status["message"], status
    assert "guess-work" not in server.log()


def test_the_right_password_and_an_image_that_is_there_already(server, registry, private, forget):
    forget(private)
    id = server.create(image={"uri": private, "auth": {"username": USER, "password": PASSWORD}})["id"]
    assert server.run(id, "cat /from") == "registry"
    assert server.get(id).json()["image"] == {"uri": private}
    asked = len(registry.requests())
    server.create(image={"uri": private})
    assert len(registry.requests()) == asked
    assert PASSWORD not in server.log()


def test_passwords_of_the_servers_user(server, registry, private, forget):
    """~/.docker/config.json, as `docker login` writes it."""
    directory = server.directory / ".docker"
    directory.mkdir()
    auth = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    (directory / "config.json").write_text(json.dumps({"auths": {registry.host: {"auth": auth}}}))
    forget(private)
    id = server.create(image={"uri": private})["id"]
    assert server.run(id, "cat /from") == "registry"
    (directory / "config.json").unlink()


def test_platforms_that_are_not_to_be_had(server, private, forget):
    forget(private)
    auth = {"username": USER, "password": PASSWORD}
    status = failed(server, image={"uri": private, "auth": auth}, platform={"os": "linux", "arch": "arm64"})
    assert status["reason"] in ("DOCKER::SANDBOX_IMAGE_PULL_FAILED", "SANDBOX::INVALID_PARAMETER"), status
    assert "arm64" in status["message"], status
    status = failed(server, platform={"os": "linux", "arch": "arm64"})
    assert status["reason"] in ("DOCKER::SANDBOX_IMAGE_PULL_FAILED", "SANDBOX::INVALID_PARAMETER"), status
    made = server.create(platform={"os": "linux", "arch": "amd64"})
    assert server.get(made["id"]).json()["platform"] == {"os": "linux", "arch": "amd64"}


REFUSED = [
    ({"platform": {"os": "windows", "arch": "amd64"}}, 400, "SANDBOX::INVALID_PARAMETER", "/platform/os"),
    ({"platform": {"os": "plan9", "arch": "amd64"}}, 400, "SANDBOX::INVALID_PARAMETER", "plan9"),
    ({"networkPolicy": {"defaultAction": "deny"}}, 400, "SANDBOX::INVALID_PARAMETER", "network"),
    ({"extensions": {"poolRef": "p"}}, 400, "SANDBOX::UNSUPPORTED_POOL_REF", ""),
    ({"entrypoint": ["  "]}, 400, "DOCKER::INVALID_ENTRYPOINT", ""),
    ({"resourceLimits": {"memory": "512MiB"}}, 400, "SANDBOX::INVALID_PARAMETER", "memory"),
    ({"resourceLimits": {"memory": "1.5Gi"}}, 400, "SANDBOX::INVALID_PARAMETER", "memory"),
    ({"resourceLimits": {"memory": "-1"}}, 400, "SANDBOX::INVALID_PARAMETER", "memory"),
    ({"resourceLimits": {"cpu": "0"}}, 400, "SANDBOX::INVALID_PARAMETER", "cpu"),
    ({"resourceLimits": {"cpu": "two"}}, 400, "SANDBOX::INVALID_PARAMETER", "cpu"),
    ({"resourceLimits": {"gpu": "-1"}}, 400, "SANDBOX::INVALID_PARAMETER", "gpu"),
    ({"resourceLimits": {"gpu": "some"}}, 400, "SANDBOX::INVALID_PARAMETER", "gpu"),
    ({"metadata": {"opensandbox.io/id": "x"}}, 400, "SANDBOX::INVALID_METADATA_LABEL", "opensandbox.io/id"),
]


@pytest.mark.parametrize("fields, status, code, named", REFUSED, ids=lambda value: json.dumps(value)[:40])
def test_requests_that_are_refused_at_once(server, fields, status, code, named):
    answered = refused(server, **fields)
    assert answered[:2] == (status, code), answered
    assert named in answered[2]


def test_images_that_cannot_run(server, engine, forget):
    forget("no-shell:latest")
    engine.load("no-shell:latest", [tar({"file": "x"})])
    made = server.post_sandbox(image={"uri": "no-shell"}).json()
    # A container that starts and ends at once; what it had to say is in its log.
    assert (made["status"]["state"], made["status"]["reason"]) == ("Failed", "CONTAINER_EXITED_ERROR"), made
    assert "bootstrap.sh" in server.client.get(f"/v1/sandboxes/{made['id']}/diagnostics/logs").text
    made = server.post_sandbox(entrypoint=["no-such-program"]).json()
    status = server.wait_state(made["id"], "Failed", "Terminated")["status"]
    assert status["reason"] == "CONTAINER_EXITED_ERROR" and "127" in status["message"], status


def test_an_execd_image_that_is_no_execd_image(make_server, engine):
    for image, code in (("busybox", "DOCKER::SANDBOX_EXECD_DISTRIBUTION_FAILED"),
                        ("127.0.0.1:1/none:1", "DOCKER::SANDBOX_EXECD_START_FAILED")):
        server = make_server(settings={"runtime": {"execd_image": image}})
        status = failed(server)
        assert status["reason"] == code and image in status["message"], status
        server.remove_all()
        server.stop()


def test_an_unknown_network(make_server, engine):
    server = make_server(settings={"docker": {"network_mode": "NoSuchNetwork"}})
    answered = refused(server)
    assert answered[:2] == (400, "SANDBOX::INVALID_PARAMETER"), answered
    assert "NoSuchNetwork" in answered[2]


@pytest.mark.parametrize("settings, named", [
    ({"secure_runtime": {"type": "kata", "docker_runtime": "no-such-runtime"}}, "no-such-runtime"),
    ({"docker": {"seccomp_profile": "/no/such/profile.json"}}, "/no/such/profile.json"),
    ({"secure_runtime": {"type": "firecracker", "k8s_runtime_class": "x"}}, "firecracker"),
    ({"runtime": {"execd_image": ""}}, "execd_image"),
], ids=["runtime", "seccomp", "firecracker", "execd"])
def test_a_server_that_could_never_work_does_not_start(make_server, settings, named):
    with pytest.raises(RuntimeError, match=named):
        make_server(settings=settings)


HOLDER = """
import resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
held = []
for port in range(int(sys.argv[1]), 60001, 2):
    held.append(socket.socket())
    try:
        held[-1].bind(("127.0.0.1", port))
        held[-1].listen(1)
    except OSError as error:
        assert error.errno == 98, error
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def hold():
    """Takes every other port of those that sandboxes get, from this one on."""
    holders = []

    def take(first):
        holders.append(subprocess.Popen([sys.executable, "-c", HOLDER, str(first)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True))
        assert holders[-1].stdout.readline() == "held\n"

    def free():
        for each in holders:
            each.communicate()

    take.free = free
    yield take
    for each in holders:
        each.kill()
        each.wait()


def test_ports_that_others_have(server, hold):
    hold(40000)
    for _ in range(3):
        id = server.create()["id"]
        assert server.run(id, "echo odd") == "odd"
        assert int(server.daemon.inspect(id)["NetworkSettings"]["Ports"]["44772/tcp"][0]["HostPort"]) % 2 == 1
    server.remove_all()
    hold(40001)
    status = failed(server)
    assert status["reason"] == "DOCKER::SANDBOX_START_FAILED" and "port" in status["message"], status
    server.remove_all()
    hold.free()
    assert server.run(server.create()["id"], "echo free") == "free"
